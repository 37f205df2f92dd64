//! Everyone's side of a cache: who owns it, whether it was invalidated, what came back from other threads, statistics.
//!
//! Invariants: `owner` names at most one thread, and only that thread writes `settled` and the counters; `generation`
//! only grows, and `settled` follows it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::record::Home;
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
    /// Blocks of an older generation than this go back to the device, not only to its range.
    trimmed: AtomicU64,
    /// The device it serves, or [`Shared::SEVERAL`].
    device: AtomicU64,
    pub(super) returns: Returns,
    pub(super) counters: Counters,
}

impl Shared {
    pub(super) fn new() -> Shared {
        Shared {
            owner: AtomicU64::new(NOBODY),
            is_entered: AtomicBool::new(false),
            // Not 0, the epoch of no block.
            generation: AtomicU64::new(1),
            settled: AtomicU64::new(1),
            trimmed: AtomicU64::new(1),
            device: AtomicU64::new(0),
            returns: Returns::default(),
            counters: Counters::default(),
        }
    }

    const SEVERAL: u64 = u64::MAX;

    /// Makes every block of today an old one, whose memory goes to the range of its device.
    pub(super) fn outdate(&self) {
        self.generation.fetch_add(1, SeqCst);
    }

    /// Makes every block of today an old one, whose memory goes to its device.
    pub(super) fn invalidate(&self) {
        let new = self.generation.fetch_add(1, SeqCst) + 1;
        self.trimmed.fetch_max(new, SeqCst);
    }

    /// Whether the memory of kept blocks of this generation goes to the device.
    pub(super) fn is_trimmed(&self, generation: u64) -> bool {
        generation != Home::NEVER_KEPT && generation < self.trimmed.load(Relaxed)
    }

    /// For the owner: notes the device that it serves.
    pub(super) fn note_device(&self, device: u64) {
        match self.device.load(Relaxed) {
            known if known == device => {}
            0 => self.device.store(device, Relaxed),
            _ => self.device.store(Shared::SEVERAL, Relaxed),
        }
    }

    /// Whether it has served this device, alone or among others.
    pub(super) fn serves(&self, device: u64) -> bool {
        let mine = self.device.load(Relaxed);
        mine == device || mine == Shared::SEVERAL
    }

    /// How many bytes of a device's memory the cache is likely to need again.
    pub(super) fn demand(&self, device: u64) -> u64 {
        if self.serves(device) { self.counters.expected() } else { 0 }
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
        self.counters.renew_demand();
    }

    /// Whether the owner has something to do: an invalidation waits, or blocks came back.
    #[inline]
    pub(super) fn is_unsettled(&self) -> bool {
        !self.returns.is_empty() || self.settled.load(Relaxed) != self.generation.load(SeqCst)
    }
}
