//! Iterations without a scope that repeat no order: their batches differ, and so do their kernels and temporary arrays. They are cycles: the
//! live bytes rise from low water and fall back to it.

use fastrand::Rng;
use gpucache::device::Virtual;
use gpucache::{Allocate, Array, Scope};

type Bytes = Array<u8, Virtual>;

/// A training step. Its kind decides the size of its batch, how many layers it has, and how many temporary arrays each of them takes.
fn step(device: &Virtual, kind: usize, rows: usize) {
    let zeros = |bytes: usize| -> Bytes { device.zeros(bytes * rows).unwrap() };
    let mut kept = vec![zeros(1024 * (1 + kind))];
    for layer in 0..80 + 5 * kind {
        kept.push(zeros(4096 * (1 + layer % 7)));
        (0..1 + (layer + kind) % 3).for_each(|temporary| drop(zeros(3072 * (1 + temporary))));
    }
    while let Some(activation) = kept.pop() {
        let gradient = zeros(2048);
        drop((activation, gradient));
    }
}

/// The steps of four kinds in random order, none twice in a row.
fn kinds() -> impl Iterator<Item = usize> {
    let (mut rng, mut last) = (Rng::with_seed(3), 0);
    std::iter::repeat_with(move || {
        last = (last + rng.usize(1..4)) % 4;
        last
    })
}

/// The share of 100 steps that plans serve, behind 100 others.
fn share(scope: &Scope<'_>, mut step: impl FnMut()) -> f64 {
    (0..100).for_each(|_| step());
    let before = scope.stats().unwrap();
    (0..100).for_each(|_| step());
    let since = scope.stats().unwrap().since(&before);
    since.served.planned_share()
}

#[test]
fn steps_of_several_kinds_in_random_order_are_planned_in_one_entry() {
    let (device, scope, mut kinds) = (Virtual::new(1 << 40), Scope::new("several kinds"), kinds());
    let planned = scope.run(|| share(&scope, || step(&device, kinds.next().unwrap(), 16)));
    assert!(planned > 0.95, "{planned} of the steps is planned");
}

/// A state that an optimizer makes stays alive from then on, so the bytes never fall back to where they were.
#[test]
fn cycles_go_on_above_arrays_that_stay() {
    let (device, scope, mut kinds) = (Virtual::new(1 << 40), Scope::new("a state"), kinds());
    scope.run(|| {
        let before = share(&scope, || step(&device, kinds.next().unwrap(), 16));
        let _state: Vec<Bytes> = (0..30).map(|_| device.zeros(1 << 20).unwrap()).collect();
        let behind = share(&scope, || step(&device, kinds.next().unwrap(), 16));
        assert!(behind > 0.95 * before, "plans serve {before}, and {behind} behind the arrays that stay");
    });
}

/// Fewer bytes are alive from then on than at the low water that was known.
#[test]
fn cycles_come_back_when_an_older_array_is_dropped() {
    let (device, scope, mut kinds) = (Virtual::new(1 << 40), Scope::new("an older array"), kinds());
    scope.run(|| {
        let older: Bytes = device.zeros(1 << 20).unwrap();
        let before = share(&scope, || step(&device, kinds.next().unwrap(), 16));
        drop(older);
        let behind = share(&scope, || step(&device, kinds.next().unwrap(), 16));
        assert!(behind > 0.95 * before, "plans serve {before}, and {behind} behind the array");
    });
}

/// Short random arrays look like a loop now and then. Steps behind them are planned all the same.
#[test]
fn steps_are_planned_behind_many_short_arrays() {
    let (device, scope, mut kinds) = (Virtual::unchecked(1 << 40), Scope::new("short arrays"), kinds());
    let mut rng = Rng::with_seed(3);
    scope.run(|| {
        for _ in 0..1_500_000 {
            drop(device.zeros::<u8>(rng.usize(4 << 20..8 << 20)).unwrap());
        }
        let planned = share(&scope, || step(&device, kinds.next().unwrap(), 16));
        assert!(planned > 0.9, "{planned} of the steps is planned");
    });
}

/// The first array after each step is the loss of that step, and does not tell the order of the next one.
#[test]
fn losses_that_are_kept_do_not_hide_the_order_of_the_next_step() {
    let (device, scope, mut kinds) = (Virtual::new(1 << 40), Scope::new("losses"), kinds());
    let mut losses: Vec<Bytes> = Vec::new();
    let planned = scope.run(|| {
        share(&scope, || {
            step(&device, kinds.next().unwrap(), 256);
            losses.push(device.zeros(4).unwrap());
        })
    });
    assert!(planned > 0.95, "{planned} of the steps is planned");
}

/// A step that is followed by an evaluation, or not. The weights are elsewhere.
fn step_of_training(device: &Virtual, evaluates: bool) {
    let zeros = |bytes: usize| -> Bytes { device.zeros(bytes).unwrap() };
    let mut kept = vec![zeros(65_536)];
    for layer in 0..24 {
        kept.push(zeros(131_072 + 256 * layer));
        drop(zeros(524_288));
    }
    while let Some(activation) = kept.pop() {
        drop((zeros(activation.len()), activation));
    }
    if evaluates {
        let _batch = zeros(131_072);
        (0..20).fold(zeros(6_291_456), |_input, layer| {
            let output = zeros(6_291_456 + 256 * layer);
            drop(zeros(10_485_760));
            output
        });
    }
}

/// Between two evaluations no cycle is recorded.
#[test]
fn a_cycle_that_comes_at_regular_times_is_planned() {
    let (device, scope) = (Virtual::new(1 << 40), Scope::new("evaluates"));
    scope.run(|| {
        (0..299).for_each(|step| step_of_training(&device, step % 50 == 49));
        let before = scope.stats().unwrap();
        step_of_training(&device, true);
        let since = scope.stats().unwrap().since(&before);
        assert_eq!(since.served.planned.allocations, since.allocations(), "{since}");
    });
}
