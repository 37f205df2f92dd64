//! Trims, as a framework's `empty_cache` calls them, and the figures of a device.
#![allow(clippy::panic, clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use gpucache_capi::{allocate, device_stats, enter, free, leave, trim};

/// The host.
const DEVICE: i32 = -1;

fn step() {
    let live: Vec<u64> = (1..20).map(|size| allocate(size << 20, DEVICE, 0).unwrap()).collect();
    live.into_iter().rev().for_each(|address| free(address).unwrap());
}

#[test]
fn a_trim_gives_back_what_the_plans_of_open_scopes_keep() {
    let kept = allocate(4096, DEVICE, 0).unwrap();
    // A loop outside of scopes, then one in a scope that stays open, then one in a scope that is left.
    (0..100).for_each(|_| step());
    let open = enter("open").unwrap();
    for _ in 0..10 {
        let entry = enter("left").unwrap();
        step();
        leave(entry).unwrap();
    }
    let entry = enter("open").unwrap();
    (0..60).for_each(|_| step());
    assert!(device_stats(DEVICE).unwrap().reserved_bytes >= 190 << 20);
    trim(DEVICE).unwrap();
    // A page for what is live, at most.
    let left = device_stats(DEVICE).unwrap().reserved_bytes;
    assert!(left <= 4 << 20, "{left} bytes are reserved");
    leave(entry).unwrap();
    leave(open).unwrap();
    // The next step gets memory again.
    step();
    free(kept).unwrap();
}

/// The bytes in use are the difference of the totals, also while another thread allocates.
#[test]
fn the_figures_of_one_reading_agree() {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Relaxed) {
                free(allocate(1000, DEVICE, 0).unwrap()).unwrap();
            }
        });
        for _ in 0..200_000 {
            let used = device_stats(DEVICE).unwrap();
            if used.allocated_bytes != used.total_allocated_bytes - used.total_freed_bytes {
                is_over.store(true, Relaxed);
                panic!("{used:?}");
            }
        }
        is_over.store(true, Relaxed);
    });
}
