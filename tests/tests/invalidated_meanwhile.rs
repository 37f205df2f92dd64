//! Invalidations by another thread while a scope finds its plan a block: nothing is lost, whenever they come.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use gpucache::device::{Device, Virtual};
use gpucache::{Array, cache_scope, invalidate};

const NAME: &str = "invalidated meanwhile";

/// A step whose order is learned at once, with sizes that leave idle blocks in the lists when a plan is made.
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
    for _ in 0..20 {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(SeqCst) {
                    let _ = invalidate(NAME);
                }
            });
            (0..2000).for_each(|number| step(&device, number));
            is_over.store(true, SeqCst);
        });
        let _ = invalidate(NAME);
        gpucache::trim(&device).unwrap();
        assert_eq!(device.memory().bytes, 0, "some block is nobody's");
    }
}
