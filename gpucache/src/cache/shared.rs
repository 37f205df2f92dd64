//! Everyone's side of a cache: who owns it, whether it was invalidated, what came back from other threads, statistics.
//!
//! Invariants: `owner` names at most one thread, and only that thread writes `settled` and the counters; `generation`
//! only grows, and `settled` follows it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::returns::Returns;
use super::stats::Counters;

/// No thread owns the cache.
pub(super) const NOBODY: u64 = u64::MAX;

pub(super) struct Shared {
    /// The token of the owning thread, or [`NOBODY`].
    pub(super) owner: AtomicU64,
    /// Whether the owner is inside the scope, and not only there to deal with something.
    pub(super) is_entered: AtomicBool,
    /// Raised by each invalidation.
    generation: AtomicU64,
    /// The generation of the owner's side: blocks of another one are released when they return.
    settled: AtomicU64,
    pub(super) returns: Returns,
    pub(super) counters: Counters,
}

impl Shared {
    pub(super) fn new() -> Shared {
        Shared {
            owner: AtomicU64::new(NOBODY),
            is_entered: AtomicBool::new(false),
            // Not 0, which is the generation of blocks that no list keeps.
            generation: AtomicU64::new(1),
            settled: AtomicU64::new(1),
            returns: Returns::default(),
            counters: Counters::default(),
        }
    }

    /// Makes every block of today an old one.
    pub(super) fn invalidate(&self) {
        self.generation.fetch_add(1, SeqCst);
    }

    /// Whether an invalidation waits for the owner.
    #[inline]
    pub(super) fn is_stale(&self) -> bool {
        self.settled.load(Relaxed) != self.generation.load(Relaxed)
    }

    /// The generation of the owner's side.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.settled.load(Relaxed)
    }

    /// For the owner: its side follows the invalidations so far.
    pub(super) fn renew(&self) {
        self.settled.store(self.generation.load(SeqCst), Relaxed);
    }

    /// Whether the owner has something to do: an invalidation waits, or blocks came back.
    #[inline]
    pub(super) fn is_unsettled(&self) -> bool {
        !self.returns.is_empty() || self.settled.load(Relaxed) != self.generation.load(SeqCst)
    }
}
