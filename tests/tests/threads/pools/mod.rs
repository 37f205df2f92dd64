//! Scopes on thread pools and on threads that come and go. Each thread has its own cache for a name, arrays move between
//! threads, and operations from outside (statistics, invalidation) cover all threads.
//!
//! Every array has its own contents, so the test fails if a live array's memory is recycled. Allocations that a scope serves
//! are counted exactly. At the end the device must have all memory back.

mod counted;
mod crowd;
mod locals;
mod stolen;

use gpucache::device::Device;
use gpucache::{Array, invalidate};
use gpucache_tests::Faulty;
use gpucache_tests::conformance::stats_of;

type Words = Array<u32, Faulty>;

/// The number of allocations that the scope has served.
fn served(name: &str) -> u64 {
    let stats = stats_of(name);
    stats.allocations()
}

/// Frees the scopes' memory, and fails if anything is left or still counts as in use.
fn assert_all_back(device: &Faulty, names: &[&str]) {
    for name in names {
        assert_eq!(invalidate(name).busy_blocks, 0, "arrays of `{name}` are in use");
        let stats = stats_of(name);
        assert_eq!((stats.busy_blocks, stats.busy_bytes, stats.idle_blocks), (0, 0, 0), "{name}");
    }
    device.assert_clean();
    assert_eq!(device.memory().bytes, 0);
}
