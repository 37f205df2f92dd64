//! Scopes whose entries have several orders, and tell by their first allocation which one they have.

use gpucache::device::{Device, Virtual};
use gpucache::{Array, Scope, stats};

/// The sides of the images.
const SIDES: [usize; 4] = [48, 64, 80, 96];
/// The entries before those that count.
const WARMING: usize = 60;

/// A step of a training on images with sides of so many pixels. The largest ones take another algorithm, which needs workspaces.
fn step(device: &Virtual, side: usize) {
    let zeros = |bytes: usize| Array::<u8, Virtual>::zeros(device, bytes).unwrap();
    let _images = zeros(192 * side * side);
    let mut kept = Vec::new();
    for layer in 0..16 {
        kept.push(zeros(side * side * (4096 + layer)));
        if layer >= 8 {
            let _scores = zeros(16 * side.pow(4));
            let _workspace = (side == SIDES[3]).then(|| zeros(4 * side.pow(4)));
        }
    }
}

/// The share of planned allocations and the calls of a training on images of random sizes.
fn train(seed: u64) -> (f64, u64) {
    let name = format!("images of several sizes, {seed}");
    let (device, scope) = (Virtual::new(1 << 40), Scope::new(&name));
    let seen = || {
        let (memory, stats) = (device.memory(), stats(&name).unwrap());
        (memory.times_taken() + memory.times_given_back(), stats.served.planned.allocations, stats.allocations())
    };
    let mut random = fastrand::Rng::with_seed(seed);
    let mut steps = |number| (0..number).for_each(|_| scope.run(|| step(&device, SIDES[random.usize(0..SIDES.len())])));
    steps(WARMING);
    let (calls, planned, all) = seen();
    steps(2 * WARMING);
    let (calls_then, planned_then, all_then) = seen();
    ((planned_then - planned) as f64 / (all_then - all) as f64, calls_then - calls)
}

/// The plan for the other images has served steps with the largest ones, so it expects their first allocation too. Before
/// plans remembered their first sizes, these seeds planned 0.68 to 0.77 of the allocations, with up to 900 calls.
#[test]
fn the_first_allocation_tells_the_order() {
    for seed in 1..=8 {
        assert_eq!(train(seed), (1.0, 0), "seed {seed}");
    }
}
