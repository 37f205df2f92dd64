//! Trims, as a framework's `empty_cache` calls them.
#![allow(clippy::unwrap_used)]

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
