//! Endless entries and scopes whose work changes: what is planned once the work stays the same.

use fastrand::Rng;
use gpucache::device::{Device, Virtual};
use gpucache::{Allocate, Array, Scope};

const KIB: usize = 1 << 10;

fn zeros<D: Device>(device: &D, bytes: usize) -> Array<u8, D> {
    device.zeros(bytes).unwrap()
}

/// A forward and a backward pass. The kind decides which temporary arrays the layers take.
fn step<D: Device>(device: &D, layers: usize, kind: usize) {
    let mut activations = Vec::new();
    for layer in 0..layers {
        activations.push(zeros(device, 64 * KIB * (1 + (layer + kind) % 5)));
        (0..1 + (layer + kind) % 3).for_each(|_| drop(zeros(device, 128 * KIB)));
    }
    while let Some(activation) = activations.pop() {
        drop((zeros(device, activation.len()), activation));
    }
}

/// A step and an optimizer, which takes temporary arrays for each parameter.
fn step_with_optimizer(device: &Virtual, layers: usize, temporaries: usize) {
    let parameters =
        [768 * KIB, 256 * KIB, 8 * KIB, 1024 * KIB, 1024 * KIB, 8 * KIB, 8 * KIB, 8 * KIB, 32 * KIB, 32 * KIB];
    let mut activations = Vec::new();
    for _ in 0..layers {
        for (place, bytes) in parameters.into_iter().enumerate() {
            activations.push(zeros(device, bytes));
            (place % 2 == 0).then(|| zeros(device, 64 * KIB));
        }
    }
    while let Some(activation) = activations.pop() {
        drop((zeros(device, activation.len()), activation));
    }
    for bytes in std::iter::repeat_n(parameters, layers).flatten() {
        drop((0..temporaries).map(|_| zeros(device, bytes)).collect::<Vec<_>>());
    }
}

/// The share that plans serve while this runs.
fn share(scope: &Scope<'_>, run: impl FnOnce()) -> f64 {
    let before = scope.stats().unwrap_or_default();
    run();
    let since = scope.stats().unwrap().since(&before);
    since.served.planned_share()
}

/// Four steps of different orders in a row look like steps with a regular part. Soon it shows that the orders come again.
#[test]
fn up_to_eight_orders_in_random_turns_are_planned() {
    for kinds in [4, 6, 8] {
        for seed in 0..6 {
            let (device, name, mut rng) =
                (Virtual::new(1 << 40), format!("{kinds} orders {seed}"), Rng::with_seed(seed));
            let scope = Scope::new(&name);
            let mut steps = |count| {
                (0..count).for_each(|_| {
                    let kind = rng.usize(..kinds);
                    scope.run(|| {
                        let _batch = zeros(&device, 1024 * KIB * (1 + kind));
                        step(&device, 60 + 5 * kind, kind);
                    });
                });
            };
            steps(300);
            let planned = share(&scope, || steps(100));
            assert!(planned > 0.95, "{planned} of {kinds} orders is planned with seed {seed}");
        }
    }
}

#[test]
fn a_loop_that_goes_on_on_another_device_is_planned_there() {
    let (one, other, scope) = (Virtual::new(1 << 40), Virtual::new(1 << 40), Scope::new("another device"));
    for entry in 0..3 {
        let device = if entry % 2 == 0 { &one } else { &other };
        let planned = scope.run(|| share(&scope, || (0..100).for_each(|_| step(device, 100, 0))));
        assert!(planned > 0.9, "{planned} of entry {entry} is planned");
    }
    let planned = scope.run(|| {
        (0..100).for_each(|_| step(&one, 100, 0));
        share(&scope, || (0..100).for_each(|_| step(&other, 100, 0)))
    });
    assert!(planned > 0.9, "{planned} of the second half of an entry is planned");
}

/// The short entries have a plan, which ends where the long one has just begun.
#[test]
fn a_long_entry_behind_short_ones_is_planned() {
    for (name, layers) in [("equal steps", 100), ("other steps", 70)] {
        let (device, scope) = (Virtual::new(1 << 40), Scope::new(name));
        (0..5).for_each(|_| scope.run(|| step(&device, layers, 0)));
        scope.run(|| {
            (0..50).for_each(|_| step(&device, 100, 0));
            let planned = share(&scope, || (0..100).for_each(|_| step(&device, 100, 0)));
            assert!(planned > 0.95, "{planned} of the long entry behind {name} is planned");
        });
    }
}

/// The layers of an optimizer are a loop or cycles inside of the step.
#[test]
fn steps_that_end_in_an_optimizer_are_planned_as_a_whole() {
    for (layers, temporaries) in [(12, 3), (24, 3), (48, 3), (12, 6), (16, 6), (24, 8)] {
        let (device, name) = (Virtual::new(1 << 40), format!("{layers} layers, {temporaries} temporaries"));
        let scope = Scope::new(&name);
        scope.run(|| {
            (0..100).for_each(|_| step_with_optimizer(&device, layers, temporaries));
            let planned = share(&scope, || (0..50).for_each(|_| step_with_optimizer(&device, layers, temporaries)));
            assert!(planned > 0.95, "{planned} of {name} is planned");
        });
    }
}

/// The last arrays of a step are a loop with few bytes, and no cycles.
#[test]
fn temporary_arrays_at_the_end_of_a_step_are_no_cycles() {
    let (device, scope) = (Virtual::new(1 << 40), Scope::new("a tail"));
    let run = |count| {
        (0..count).for_each(|_| {
            drop((0..100).map(|layer| zeros(&device, 64 * KIB * (1 + layer % 5))).collect::<Vec<_>>());
            (0..200).for_each(|_| drop(zeros(&device, 5000)));
        });
    };
    scope.run(|| {
        run(100);
        let planned = share(&scope, || run(50));
        assert!(planned > 0.95, "{planned} of the steps is planned");
    });
}
