//! Invalidations by another thread while a scope gets a block for its plan. Nothing is lost, whenever they come.
#![allow(clippy::unwrap_used)]

use gpucache::device::{Device, Virtual};
use gpucache::{Array, cache_scope, invalidate};

const NAME: &str = "invalidated meanwhile";

/// A step whose order is learned at once. Its sizes leave idle blocks in the lists when a plan is made.
fn step(device: &Virtual, number: usize) {
    cache_scope!(name = NAME, {
        let held: Vec<_> =
            (1..9).map(|place| Array::<u8, _>::zeros(device, place * 7000 + number % 3).unwrap()).collect();
        drop(held);
    });
}

#[test]
fn no_block_of_a_plan_is_lost() {
    let device = Virtual::unchecked(1 << 40);
    for round in 0..40 {
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let (device, mut random) = (&device, fastrand::Rng::with_seed(4 * round + thread));
                threads.spawn(move || {
                    for number in 0..400 {
                        step(device, number);
                        if random.usize(..8) == 0 {
                            let _ = invalidate(NAME);
                        }
                    }
                });
            }
        });
        let _ = invalidate(NAME);
        device.trim();
        assert_eq!(device.memory().bytes, 0, "some block is nobody's after round {round}");
    }
}
