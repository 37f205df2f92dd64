//! Invalidations by another thread while a scope gets a block for its plan. Nothing is lost, whenever they come.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use gpucache::device::Virtual;
use gpucache::prelude::*;
use gpucache::{Scope, cache_scope, invalidate};
use gpucache_tests::meanwhile::End;

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

/// A drop outside of its scope, after an invalidation, trims the ranges of all devices while it holds the scope's cache. The last
/// handle of another device goes at that time.
#[test]
fn a_device_ends_while_another_thread_trims() {
    let is_over = AtomicBool::new(false);
    let make_devices = || {
        while !is_over.load(Relaxed) {
            let device = Virtual::new(1 << 30);
            Scope::new("invalidated meanwhile: devices").run(|| drop(device.zeros::<u8>(4 << 20).unwrap()));
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(make_devices);
        threads.spawn(make_devices);
        let _end = End(&is_over);
        let (name, device) = ("invalidated meanwhile: trims", Virtual::new(1 << 30));
        for _ in 0..10_000 {
            let array = Scope::new(name).run(|| device.zeros::<u8>(4 << 20)).unwrap();
            invalidate(name);
            drop(array);
        }
    });
}
