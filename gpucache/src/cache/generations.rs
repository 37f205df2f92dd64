//! The generations of a cache: each invalidation begins one, and the owner's side follows.
//!
//! Invariants: `current` only grows; `settled` follows it, and only the owner writes it.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::base::sync::AtomicU64;

pub(super) struct Generations {
    /// Raised by each invalidation.
    current: AtomicU64,
    /// That of the owner's side: blocks of another one are released when they return.
    settled: AtomicU64,
}

impl Generations {
    pub(super) fn new() -> Generations {
        // Not 0, the epoch of no block.
        Generations { current: AtomicU64::new(1), settled: AtomicU64::new(1) }
    }

    /// Makes every block of today an old one. Who calls this then tries to hold the cache: see [`Hold`](super::hold::Hold).
    pub(super) fn raise(&self) {
        self.current.fetch_add(1, SeqCst);
    }

    /// Whether a block of this generation is an old one. Epochs are none.
    pub(super) fn is_old(&self, generation: u64) -> bool {
        generation < self.current.load(Relaxed)
    }

    #[inline]
    pub(super) fn settled(&self) -> u64 {
        self.settled.load(Relaxed)
    }

    /// Whether the owner has an invalidation to deal with, for a look now and then.
    #[inline]
    pub(super) fn is_stale(&self) -> bool {
        self.settled.load(Relaxed) != self.current.load(Relaxed)
    }

    /// The same for whoever gave the cache up.
    #[inline]
    pub(super) fn is_unsettled(&self) -> bool {
        self.settled.load(Relaxed) != self.current.load(SeqCst)
    }

    /// For the owner: its side follows the invalidations so far.
    pub(super) fn settle(&self) {
        self.settled.store(self.current.load(SeqCst), Relaxed);
    }
}
