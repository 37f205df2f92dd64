//! Scopes on thread pools and on threads that come and go. Each thread has its own cache of a name, and arrays may go anywhere.
//! Statistics and invalidations from outside see all threads.
//!
//! Every array has contents of its own, so the test fails if an array is recycled while it is alive. The allocations that a scope
//! served are counted exactly. At the end the device must have everything back.
#![allow(clippy::unwrap_used)]

mod counted;
mod crowd;
mod locals;
mod stolen;

use gpucache::device::Device;
use gpucache::{Array, invalidate};
use gpucache_tests::Faulty;
use gpucache_tests::conformance::stats_of;

type Words = Array<u32, Faulty>;

/// How many allocations the scope has served.
fn served(name: &str) -> u64 {
    let stats = stats_of(name);
    stats.allocations()
}

/// Gives back the memory of the scopes. Fails if anything is left, or still counted as in use.
fn assert_all_back(device: &Faulty, names: &[&str]) {
    for name in names {
        assert_eq!(invalidate(name).busy_blocks, 0, "arrays of `{name}` are in use");
        let stats = stats_of(name);
        assert_eq!((stats.busy_blocks, stats.busy_bytes, stats.idle_blocks), (0, 0, 0), "{name}");
    }
    device.assert_clean();
    assert_eq!(device.memory().bytes, 0);
}
