//! The generations of a cache. Each invalidation begins a generation, and the owner's side follows later.
//!
//! Invariants: `current` only grows. `followed` follows it, and only the owner writes `followed`.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::base::sync::AtomicU64;
use crate::record::Generation;

pub(crate) struct Generations {
    /// Raised by each invalidation.
    current: AtomicU64,
    /// The generation of the owner's side. Blocks of other generations are released when they return.
    followed: AtomicU64,
}

/// Differs from the generation of records that no cache has served yet ([`Generation::default`]).
const FIRST_GENERATION: u64 = 1;

impl Generations {
    pub(crate) fn new() -> Generations {
        Generations { current: AtomicU64::new(FIRST_GENERATION), followed: AtomicU64::new(FIRST_GENERATION) }
    }

    /// Makes every block of today an old one. The caller then tries to hold the cache: see [`Hold`](super::hold::Hold).
    pub(crate) fn raise(&self) {
        self.current.fetch_add(1, SeqCst);
    }

    /// Whether a block of this generation is old.
    pub(crate) fn is_old(&self, generation: Generation) -> bool {
        generation < Generation(self.current.load(Relaxed))
    }

    #[inline]
    pub(crate) fn followed(&self) -> Generation {
        Generation(self.followed.load(Relaxed))
    }

    /// Whether the owner has an invalidation to follow. Sequentially consistent, since a thread that has given the cache up asks too.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.followed.load(Relaxed) != self.current.load(SeqCst)
    }

    /// For the owner: notes that its side has followed all invalidations so far.
    pub(crate) fn follow(&self) {
        self.followed.store(self.current.load(SeqCst), Relaxed);
    }
}
