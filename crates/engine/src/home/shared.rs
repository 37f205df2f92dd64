//! The side of a cache for all threads: invalidations, blocks that other threads returned, and statistics.
//!
//! Invariant: only the thread that owns the cache writes the counters, except `FreedElsewhere`, to which any thread adds.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::counter::Counter;
use super::counters::Counters;
use super::counts::Counts;
use super::devices::Devices;
use super::facts::Facts;
use super::generations::Generations;
use super::returns::Returns;
use crate::base::amounts::total;
use crate::base::sync::{Mutex, MutexGuard, lock};
use crate::pressure::ReclaimStats;
use crate::pressure::lease::Lease;
use crate::record::{Generation, LentBlocks};

/// The side of a cache that other threads may touch.
pub(crate) struct Shared {
    pub(crate) generations: Generations,
    /// The devices that the cache has served.
    pub(crate) devices: Devices,
    /// The time of the last entry, by the clock of [`now`](crate::pressure::reclaim::now); 0 once the cache's thread has ended.
    pub(crate) entered: AtomicU64,
    pub(crate) returns: Returns,
    pub(crate) counters: Counters,
    /// The lease of the arena that has the owner's plans.
    pub(crate) lease: Lease,
    /// The lease of the blocks that have carried arrays.
    pub(crate) ring: Lease,
    /// The blocks that hold arenas of scopes inside.
    pub(crate) lent: LentBlocks,
    /// How the scope's requests were served when memory was short.
    pub(crate) reclaim: Mutex<ReclaimStats>,
    /// The facts that keep the scope from being planned.
    facts: Mutex<Facts>,
    /// Whether the scope keeps every block by key.
    pub(crate) keeps_all: AtomicBool,
    /// Whether graphs use the memory of the plans, or soon will.
    pub(crate) has_graphs: AtomicBool,
    /// Whether the owner has to reset its peaks. A thread that sets this then tries to hold the cache.
    pub(crate) wants_reset: AtomicBool,
    /// Identifies these counts. They get another number when they begin anew.
    pub(crate) number: AtomicU64,
}

/// A number that no counts have yet.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

impl Shared {
    pub(crate) fn new() -> Shared {
        Shared {
            generations: Generations::new(),
            devices: Devices::default(),
            entered: AtomicU64::new(0),
            returns: Returns::new(),
            counters: Counters::default(),
            lease: Lease::new(),
            ring: Lease::new(),
            lent: LentBlocks::default(),
            reclaim: Mutex::default(),
            facts: Mutex::default(),
            keeps_all: AtomicBool::new(false),
            has_graphs: AtomicBool::new(false),
            wants_reset: AtomicBool::new(false),
            number: AtomicU64::new(next_number()),
        }
    }

    /// Notes that the scope's work is captured into graphs, which use the memory of the plans.
    pub(crate) fn note_graphs(&self) {
        self.has_graphs.store(true, Relaxed);
    }

    /// The facts that keep the scope from being planned.
    pub(crate) fn facts(&self) -> MutexGuard<'_, Facts> {
        lock(&self.facts)
    }

    /// The statistics of the cache.
    pub(crate) fn counts(&self) -> Counts {
        Counts::of(&self.counters, &self.returns, self.planned_bytes(), &self.lent)
    }

    /// For the owner: whether an array of the cache is alive, or on its way back.
    pub(crate) fn has_busy(&self) -> bool {
        let counts = self.counts();
        let returning = [Counter::ReturnedBlocks, Counter::DeferredBlocks].map(|count| counts.get(count));
        total(returning.into_iter().chain([counts.busy_blocks(), self.lent.blocks()])) > 0
    }

    /// For the owner: whether it has to reset its peaks. The owner then does so.
    pub(crate) fn take_reset(&self) -> bool {
        self.wants_reset.load(Relaxed) && self.wants_reset.swap(false, SeqCst)
    }

    /// For the owner: sets the peaks to the current use.
    pub(crate) fn reset_peaks(&self) {
        self.counters.reset_peaks(self.planned_bytes(), &self.returns, self.lent.bytes());
    }

    /// For the owner: resets the statistics, and returns them as they were.
    pub(crate) fn reset(&self) -> Counts {
        self.devices.reset();
        [&self.keeps_all, &self.has_graphs].iter().for_each(|flag| flag.store(false, Relaxed));
        *self.facts() = Facts::default();
        let done = self.counts().without_plans();
        self.counters.reset();
        self.number.store(next_number(), Relaxed);
        done
    }

    /// The bytes in use in the arena and in the ring.
    #[inline]
    pub(crate) fn planned_bytes(&self) -> u64 {
        self.lease.live().wrapping_add(self.ring.live())
    }

    /// For the owner: the bytes in use in the arena, in the ring and beside them.
    pub(crate) fn in_use(&self) -> u64 {
        self.counters.get(Counter::BusyBytes).saturating_add(self.planned_bytes())
    }

    /// For the owner: counts a block that is handed out beside plans.
    #[inline]
    pub(crate) fn note_handed_out(&self, bytes: usize) {
        self.counters.handed_out(bytes, self.planned_bytes(), &self.returns, self.lent.bytes());
    }

    /// For the owner: notes that a scope inside has so many bytes in use.
    pub(crate) fn note_use_inside(&self, bytes: u64) {
        self.counters.note_use_inside(bytes.saturating_add(self.planned_bytes()));
    }

    /// The generation of the owner's side.
    #[inline]
    pub(crate) fn generation(&self) -> Generation {
        self.generations.followed()
    }

    /// For the owner: notes that its side has followed all invalidations so far.
    pub(crate) fn renew(&self) {
        self.generations.follow();
        self.counters.renew_demand();
    }

    /// Whether the owner has work to do: an invalidation to follow, returned blocks to take in, or peaks to reset.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        !self.returns.is_empty() || self.generations.is_behind() || self.wants_reset.load(SeqCst)
    }
}
