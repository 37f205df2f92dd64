//! Statistics of a cache: counters with one writer, and what is read from them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::returns::Returns;

/// What a scope did and holds, over all threads, since the process began.
///
/// While other threads work in the scope, the numbers are of slightly different moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeStats {
    /// How often the scope was entered, nested entries included.
    pub entries: u64,
    /// Allocations that an idle block served.
    pub hits: u64,
    /// Allocations that the device, or the range of its memory, served.
    pub misses: u64,
    /// Blocks in use by arrays.
    pub busy_blocks: u64,
    /// Their bytes.
    pub busy_bytes: u64,
    /// Blocks that wait for their next use.
    pub idle_blocks: u64,
    /// Their bytes.
    pub idle_bytes: u64,
    /// The most bytes in use at once; the sum of each thread's own mark.
    pub high_water_bytes: u64,
    /// Calls by which those misses took memory from the device.
    pub device_allocations: u64,
    /// Bytes that were in use at once since the last invalidation, and are not now: what the scope is likely to need
    /// again, whether its own lists or the device's range have them.
    pub spare_bytes: u64,
}

/// The numbers behind [`ScopeStats`], written by the cache's owner alone and read by everyone.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) entries: Counter,
    pub(super) hits: Counter,
    pub(super) misses: Counter,
    pub(super) drops: Counter,
    pub(super) busy_bytes: Counter,
    pub(super) held_bytes: Counter,
    /// The most bytes in use at once since the last invalidation, and before it.
    pub(super) demand: Counter,
    past_demand: Counter,
    pub(super) device_allocations: Counter,
    /// Blocks that left the cache for good.
    pub(super) released: Counter,
}

/// A number with one writer: plain loads and stores, no read-modify-write.
#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counters {
    /// Counts a block that was supplied, by so many calls to the device.
    pub(super) fn allocated(&self, bytes: usize, calls: u64) {
        self.misses.add(1);
        self.device_allocations.add(calls);
        self.held_bytes.add(bytes as u64);
    }

    /// Counts a block that is handed out.
    #[inline]
    pub(super) fn handed_out(&self, bytes: usize, returns: &Returns) {
        let busy = self.busy_bytes.get() + bytes as u64;
        self.busy_bytes.set(busy);
        if busy > self.demand.get() {
            // What other threads dropped is not in use, though this thread has not taken it back yet.
            let in_use = busy.saturating_sub(returns.bytes.load(Relaxed));
            self.demand.set(in_use.max(self.demand.get()));
        }
    }

    /// Forgets how much was needed, but for the record.
    pub(super) fn renew_demand(&self) {
        self.past_demand.set(self.past_demand.get().max(self.demand.get()));
        self.demand.set(0);
    }

    /// Counts a block that comes back.
    #[inline]
    pub(super) fn dropped(&self, bytes: usize) {
        self.drops.add(1);
        self.busy_bytes.subtract(bytes as u64);
    }

    /// Counts a block that leaves the cache for good.
    pub(super) fn released(&self, bytes: usize) {
        self.released.add(1);
        self.held_bytes.subtract(bytes as u64);
    }

    /// What the numbers say, with what lies on the return stack counted as idle.
    pub(super) fn read(&self, returns: &Returns) -> ScopeStats {
        let (hits, misses) = (self.hits.get(), self.misses.get());
        let dropped = self.drops.get() + returns.blocks.load(Relaxed);
        let busy_bytes = self.busy_bytes.get().saturating_sub(returns.bytes.load(Relaxed));
        let busy_blocks = (hits + misses).saturating_sub(dropped);
        ScopeStats {
            entries: self.entries.get(),
            hits,
            misses,
            busy_blocks,
            busy_bytes,
            idle_blocks: misses.saturating_sub(self.released.get() + busy_blocks),
            idle_bytes: self.held_bytes.get().saturating_sub(busy_bytes),
            high_water_bytes: self.past_demand.get().max(self.demand.get()),
            device_allocations: self.device_allocations.get(),
            spare_bytes: self.demand.get().saturating_sub(busy_bytes),
        }
    }
}

impl Counter {
    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline]
    fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    #[inline]
    pub(super) fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    #[inline]
    fn subtract(&self, less: u64) {
        self.set(self.get().wrapping_sub(less));
    }
}

impl std::ops::AddAssign for ScopeStats {
    fn add_assign(&mut self, other: ScopeStats) {
        self.entries += other.entries;
        self.hits += other.hits;
        self.misses += other.misses;
        self.busy_blocks += other.busy_blocks;
        self.busy_bytes += other.busy_bytes;
        self.idle_blocks += other.idle_blocks;
        self.idle_bytes += other.idle_bytes;
        self.high_water_bytes += other.high_water_bytes;
        self.device_allocations += other.device_allocations;
        self.spare_bytes += other.spare_bytes;
    }
}
