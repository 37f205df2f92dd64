//! Entries that begin alike and part later: which of several orders they have shows only in their midst.

use fastrand::Rng;
use gpucache::device::{Device, Host, Virtual};
use gpucache::{Array, Recycle, Scope, stats};
use gpucache_tests::play::entries::{Style, plannable};
use gpucache_tests::play::{Op, Player};

const KIB: usize = 1 << 10;

/// A step of a training: a forward pass with some extra layers behind its first half, a backward pass, and an evaluation of some layers.
fn step<D: Device>(device: &D, (extra, evaluated): (usize, usize), length: usize) {
    let zeros = |bytes: usize| Array::<u8, D>::zeros(device, bytes).unwrap();
    let (_batch, mut kept) = (zeros(64 * KIB), Vec::new());
    for layer in 0..24 + extra {
        let is_extra = (12..12 + extra).contains(&layer);
        kept.push(zeros(length * if is_extra { 7 * KIB } else { 2 * KIB } + layer));
        drop(zeros(length * 8 * KIB));
    }
    while let Some(activation) = kept.pop() {
        drop((zeros(activation.len()), activation));
    }
    for layer in 0..evaluated {
        drop((zeros(length * 96 * KIB + layer), zeros(length * 160 * KIB)));
    }
}

/// The share of planned allocations and the calls of the device of steps of these kinds and lengths, once the scope has settled.
fn settled(name: &str, mut kind: impl FnMut(usize) -> ((usize, usize), usize)) -> (f64, u64) {
    let (device, scope) = (Virtual::new(1 << 40), Scope::new(name));
    let seen = || {
        let (memory, stats) = (device.memory(), stats(name).unwrap());
        (memory.times_taken() + memory.times_given_back(), stats.served.planned.allocations, stats.allocations())
    };
    let mut steps = |numbers: std::ops::Range<usize>| {
        numbers.for_each(|number| {
            let (parts, length) = kind(number);
            scope.run(|| step(&device, parts, length));
        });
    };
    steps(0..60);
    let before = seen();
    steps(60..180);
    let after = seen();
    ((after.1 - before.1) as f64 / (after.2 - before.2) as f64, after.0 - before.0)
}

/// No first allocation tells these orders apart, and the order before does not tell which one comes.
#[test]
fn orders_that_part_in_their_midst_are_planned() {
    let turns = settled("every third step has more layers", |number| ((if number % 3 == 2 { 6 } else { 0 }, 0), 64));
    assert_eq!(turns, (1.0, 0));
    let mut rng = Rng::with_seed(1);
    let random = settled("some steps have more layers", |_| (([0, 3, 6][rng.usize(..3)], 0), 64));
    assert!(random.0 > 0.99 && random.1 == 0, "{random:?}");
}

#[test]
fn steps_that_go_on_behind_others_are_planned() {
    let tenth = settled("every tenth step evaluates", |number| ((0, if number % 10 == 9 { 8 } else { 0 }), 64));
    assert_eq!(tenth, (1.0, 0));
}

/// Longer sequences take other kernels, whose results differ in number. The first allocation does not tell the length.
#[test]
fn orders_whose_sizes_vary_are_planned() {
    let mut rng = Rng::with_seed(2);
    let lengths = settled("other kernels for long sequences", |_| {
        let length = rng.usize(16..64);
        ((if length > 40 { 4 } else { 0 }, 0), length)
    });
    assert!(lengths.0 > 0.97, "{lengths:?}");
}

/// Each step is longer than all before.
#[test]
fn steps_that_grow_are_planned() {
    let (device, scope) = (Virtual::new(1 << 40), Scope::new("a curriculum"));
    let step = |length: usize| {
        let zeros = |bytes: usize| Array::<u8, Virtual>::zeros(&device, bytes).unwrap();
        let (_batch, mut kept) = (zeros(KIB * length), Vec::new());
        for layer in 0..24 {
            kept.push(zeros(length * 64 * KIB + layer));
            drop(zeros(length * length * 16));
        }
    };
    let mut planned = Vec::new();
    for length in 64..160 {
        let before = scope.stats().unwrap_or_default();
        scope.run(|| step(length));
        let since = scope.stats().unwrap().since(&before);
        planned.push(since.served.planned_share());
    }
    let mean = planned[8..].iter().sum::<f64>() / (planned.len() - 8) as f64;
    let live = scope.stats().unwrap().high_water_bytes as f64;
    let reserved = device.memory().peak_bytes as f64 / live;
    assert!(mean > 0.95 && reserved < 1.03, "planned {mean:.3}, reserved {reserved:.3} of live, {planned:.2?}");
}

/// Random orders that begin alike, in random turns, in real memory whose contents are checked. Some arrays outlive their entry.
#[test]
fn contents_stay_whatever_plan_an_entry_goes_on_by() {
    for seed in 0..12 {
        let rng = &mut Rng::with_seed(seed);
        let style = Style {
            allocations: (10, 40),
            bytes: (16, 64 << 10),
            escapes: (if seed % 2 == 0 { usize::MAX } else { 8 }, 64),
        };
        let common = style.entry(rng, 0);
        let order = |rest: Vec<Op>, from: usize| -> Vec<Op> { common[..from].iter().copied().chain(rest).collect() };
        let orders: Vec<Vec<Op>> = (1..=4)
            .map(|number| {
                order(
                    style.entry(rng, 1000 * number),
                    if number == 1 { common.len() } else { rng.usize(..common.len()) },
                )
            })
            .collect();
        let mut player = Player::new(Host::new(), [format!("branches {seed}"), format!("branches {seed}, other")]);
        for _ in 0..120 {
            let entry = &orders[rng.usize(..orders.len())];
            assert!(plannable(entry) > 0);
            player.entry(0, Recycle::Auto, entry).unwrap();
        }
        player.drop_kept();
        player.finish();
    }
}
