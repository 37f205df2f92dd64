//! What the tests of the workspace share: a device that counts, checks and fails on demand, and the suite of properties
//! that every device has to have.
// A test helper reports by panicking.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

#[cfg(all(feature = "cuda", target_os = "linux"))]
pub mod alone;
pub mod conformance;
pub mod counting;
pub mod faulty;
#[cfg(feature = "cuda")]
pub mod gpu;
pub mod late;
#[cfg(target_os = "linux")]
pub mod madeup;
pub mod marked;
pub mod model;
pub mod names;
pub mod paged;
pub mod play;
pub mod process;
pub mod seeds;
pub mod survivors;
pub mod sync;

pub use faulty::Faulty;
pub use marked::Marked;

use std::sync::PoisonError;

use gpucache::stats::ScopeStats;

use self::sync::{Mutex, MutexGuard};

/// Allocations that a scope had nothing for. Whether they were recycled or missed depends on what else the process did on the
/// device, where that has a range.
pub fn supplied(stats: &ScopeStats) -> u64 {
    stats.recycled + stats.misses
}

/// Lets the tests of a process run one after the other, where each gets the guard first.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
