//! Scopes on thread pools and on threads that come and go. Each thread has its own cache of a name, and arrays move to any thread. Calls
//! from outside (statistics, invalidation) include all threads.
//!
//! Every array has its own contents, so an array that is recycled while it lives fails the test. The allocations that a scope served are
//! counted exactly. At the end all memory must be back at the device.
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

/// The allocations that the scope has served.
fn served(name: &str) -> u64 {
    let stats = stats_of(name);
    stats.allocations()
}

/// Frees the memory of the scopes. Fails if any is left, or still counts as in use.
fn assert_all_back(device: &Faulty, names: &[&str]) {
    for name in names {
        assert_eq!(invalidate(name).busy_blocks, 0, "arrays of `{name}` are in use");
        let stats = stats_of(name);
        assert_eq!((stats.busy_blocks, stats.busy_bytes, stats.idle_blocks), (0, 0, 0), "{name}");
    }
    device.assert_clean();
    assert_eq!(device.memory().bytes, 0);
}
