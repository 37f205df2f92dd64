//! The shared parts of the workspace's tests: a device that counts, checks and fails on demand, and the properties that every
//! device must have.
// A test helper reports by panicking.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

pub mod alike;
#[cfg(all(feature = "cuda", target_os = "linux"))]
pub mod alone;
pub mod captured;
pub mod conformance;
pub mod counting;
pub mod detector;
pub mod faulty;
#[cfg(feature = "cuda")]
pub mod gpu;
pub mod late;
#[cfg(target_os = "linux")]
pub mod madeup;
pub mod marked;
pub mod meanwhile;
pub mod model;
pub mod names;
pub mod paged;
pub mod partly;
pub mod play;
pub mod process;
pub mod seeds;
pub mod survivors;
pub mod sync;
pub mod timing;

pub use faulty::Faulty;
pub use marked::Marked;

use std::sync::PoisonError;

use gpucache::stats::ScopeStats;

use self::sync::{Mutex, MutexGuard};

/// The allocations that a scope had no memory for. On a device with a range, the rest of the process decides whether they were
/// recycled or missed.
pub fn supplied(stats: &ScopeStats) -> u64 {
    stats.recycled + stats.misses
}

/// Makes the tests of a process run one after the other, if each takes the guard first.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
