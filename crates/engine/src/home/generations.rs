//! The generations of a cache: each invalidation begins one, and the owner's side follows.
//!
//! Invariants: `current` only grows; `followed` follows it, and only the owner writes it.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::base::sync::AtomicU64;
use crate::record::Generation;

pub(crate) struct Generations {
    /// Raised by each invalidation.
    current: AtomicU64,
    /// That of the owner's side: blocks of another one are released when they return.
    followed: AtomicU64,
}

/// Not that of records which no cache has served yet ([`Generation::default`]).
const FIRST_GENERATION: u64 = 1;

impl Generations {
    pub(crate) fn new() -> Generations {
        Generations { current: AtomicU64::new(FIRST_GENERATION), followed: AtomicU64::new(FIRST_GENERATION) }
    }

    /// Makes every block of today an old one. Who calls this then tries to hold the cache: see [`Hold`](super::hold::Hold).
    pub(crate) fn raise(&self) {
        self.current.fetch_add(1, SeqCst);
    }

    /// Whether a block of this generation is an old one.
    pub(crate) fn is_old(&self, generation: Generation) -> bool {
        generation < Generation(self.current.load(Relaxed))
    }

    #[inline]
    pub(crate) fn followed(&self) -> Generation {
        Generation(self.followed.load(Relaxed))
    }

    /// Whether the owner has an invalidation to deal with, for a look now and then.
    #[inline]
    pub(crate) fn is_stale(&self) -> bool {
        self.followed.load(Relaxed) != self.current.load(Relaxed)
    }

    /// The same for whoever gave the cache up.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.followed.load(Relaxed) != self.current.load(SeqCst)
    }

    /// For the owner: its side follows the invalidations so far.
    pub(crate) fn follow(&self) {
        self.followed.store(self.current.load(SeqCst), Relaxed);
    }
}
