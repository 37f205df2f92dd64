//! Statistics of a cache: counters with one writer, and what is read from them.

use std::time::Duration;

use super::counter::Counter;
use super::plan_stats::{PlanCounters, PlanStats};
use super::returns::Returns;

/// What a scope did and holds, over all threads, since the process began.
///
/// While other threads work in the scope, the numbers are of slightly different moments.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// let host = Host::new();
/// let kept = cache_scope!(counted, { host.zeros::<u8>(4096)? });
/// cache_scope!(counted, { host.zeros::<u8>(4096)? }); // and drops it
/// let stats = gpucache::stats("counted").unwrap();
/// assert_eq!((stats.entries, stats.misses, stats.busy_blocks), (2, 2, 1));
/// assert_eq!((stats.busy_bytes, stats.high_water_bytes), (4096, 8192));
/// # drop(kept);
/// # Ok::<(), gpucache::Error>(())
/// ```
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
pub(crate) struct Counters {
    pub(crate) entries: Counter,
    /// Allocations that a list served.
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    /// Drops of what was served beside a plan.
    drops: Counter,
    /// In use beside a plan.
    pub(crate) busy_bytes: Counter,
    pub(crate) held_bytes: Counter,
    /// Blocks that are held, each position of a plan counted as one.
    held_blocks: Counter,
    /// The most bytes in use at once since the last invalidation, and before it.
    pub(crate) demand: Counter,
    past_demand: Counter,
    /// The most in use at once beside a plan since that was installed.
    pub(crate) beside: Counter,
    pub(crate) device_allocations: Counter,
    /// What came back while other streams may still use it, and was not counted as dropped yet.
    deferred_blocks: Counter,
    deferred_bytes: Counter,
    pub(crate) plan: PlanCounters,
}

impl Counters {
    /// Counts a block that was supplied, by so many calls to the device.
    pub(crate) fn allocated(&self, bytes: usize, calls: u64) {
        self.misses.add(1);
        self.device_allocations.add(calls);
        self.held_blocks.add(1);
        self.held_bytes.add(bytes as u64);
    }

    /// Counts a block that is handed out beside a plan, of which `planned` bytes are in use.
    #[inline]
    pub(crate) fn handed_out(&self, bytes: usize, planned: u64, returns: &Returns) {
        let busy = self.busy_bytes.get() + bytes as u64;
        self.busy_bytes.set(busy);
        if busy > self.beside.get() || busy + planned > self.demand.get() {
            // What other threads dropped is not in use, though this thread has not taken it back yet.
            let in_use = busy.saturating_sub(returns.bytes());
            self.beside.set(in_use.max(self.beside.get()));
            self.demand.set((in_use + planned).max(self.demand.get()));
        }
    }

    /// Forgets how much was needed, but for the record.
    pub(super) fn renew_demand(&self) {
        self.past_demand.set(self.past_demand.get().max(self.demand.get()));
        self.demand.set(0);
        self.beside.set(0);
    }

    /// How many bytes of a range are likely to be needed again: with room for blocks to lie apart, since a range reserves
    /// up to 1.1 times what is alive; a plan's block is as large as it need be.
    pub(crate) fn expected(&self) -> u64 {
        match self.plan.block.get() {
            0 => self.demand.get() + self.demand.get() / 8,
            block => block + self.beside.get(),
        }
    }

    /// Counts a block that comes back, and was not part of a plan.
    #[inline]
    pub(crate) fn dropped(&self, bytes: usize) {
        self.drops.add(1);
        self.busy_bytes.subtract(bytes as u64);
    }

    /// Counts a block that came back, and is kept until its stream is behind those that use it.
    pub(crate) fn deferred(&self, bytes: usize) {
        self.deferred_blocks.add(1);
        self.deferred_bytes.add(bytes as u64);
    }

    /// Its stream is behind them: it comes back now.
    pub(crate) fn resumed(&self, bytes: usize) {
        self.deferred_blocks.subtract(1);
        self.deferred_bytes.subtract(bytes as u64);
    }

    /// Counts a block that leaves the cache for good.
    pub(crate) fn released(&self, bytes: usize) {
        self.held_blocks.subtract(1);
        self.held_bytes.subtract(bytes as u64);
    }

    /// Counts a plan's block, by so many calls to the device. What is needed beside it counts from now on.
    pub(crate) fn installed(&self, bytes: u64, positions: u64, calls: u64) {
        self.device_allocations.add(calls);
        self.held_blocks.add(positions);
        self.held_bytes.add(bytes);
        self.plan.block.set(bytes);
        self.beside.set(self.busy_bytes.get());
    }

    /// Counts a plan's block out, but for so many positions with so many bytes, which are in use on their own from now
    /// on. (Each will be counted as dropped, and as returned by the plan it will not be.)
    pub(crate) fn uninstalled(&self, bytes: u64, positions: u64, live: u64, live_bytes: u64) {
        self.held_blocks.subtract(positions - live);
        self.held_bytes.subtract(bytes - live_bytes);
        self.plan.block.set(0);
        self.plan.busy_bytes.set(0);
        self.plan.evicted.add(live);
        self.busy_bytes.add(live_bytes);
        self.beside.set(self.beside.get().max(self.busy_bytes.get()));
    }

    /// Tells what a plan served and got back so far.
    pub(crate) fn note_plan(&self, served: u64, live: u64, busy_bytes: u64) {
        self.plan.served.set(served);
        self.plan.returned.set(served - live - self.plan.evicted.get());
        self.plan.busy_bytes.set(busy_bytes);
    }

    /// Notes that so many bytes are in use by a plan. Returns how many may be before the next note.
    pub(crate) fn note_planned_use(&self, planned: u64, returns: &Returns) -> u64 {
        let busy = self.busy_bytes.get();
        if busy + planned > self.demand.get() {
            let in_use = (busy + planned).saturating_sub(returns.bytes());
            self.demand.set(in_use.max(self.demand.get()));
        }
        self.demand.get().saturating_sub(busy)
    }

    /// For the owner: whether an array of the cache is alive, or on its way back.
    pub(crate) fn has_busy(&self) -> bool {
        let dropped = self.drops.get() + self.plan.returned.get();
        self.hits.get() + self.plan.served.get() + self.misses.get() != dropped
    }

    /// For the owner, when nothing is held any more: forgets everything, and returns what was done.
    pub(crate) fn reset(&self, returns: &Returns) -> (ScopeStats, PlanStats) {
        let (scope, plans) = (self.read(returns), self.read_plans());
        let Counters { entries, hits, misses, drops, busy_bytes, held_bytes, held_blocks, .. } = self;
        let Counters { demand, past_demand, beside, device_allocations, plan, .. } = self;
        let all = [entries, hits, misses, drops, busy_bytes, held_bytes, held_blocks];
        let rest = [demand, past_demand, beside, device_allocations];
        all.iter().chain(&rest).for_each(|counter| counter.set(0));
        plan.reset();
        (scope, PlanStats { plans: 0, positions: 0, bytes: 0, bound: 0, has_stopped: false, ..plans })
    }

    /// What planning did.
    pub(crate) fn read_plans(&self) -> PlanStats {
        let plan = &self.plan;
        PlanStats {
            plans: plan.plans.get(),
            positions: plan.positions.get(),
            bytes: plan.bytes.get(),
            bound: plan.bound.get(),
            planned: plan.served.get(),
            listed: self.hits.get(),
            ranged: self.misses.get(),
            deviations: plan.deviations.read(),
            planning: Duration::from_nanos(plan.planning.get()),
            has_stopped: plan.has_stopped.get() > 0,
        }
    }

    /// What the numbers say, with what lies on the return stack counted as idle.
    pub(crate) fn read(&self, returns: &Returns) -> ScopeStats {
        let (hits, misses) = (self.hits.get() + self.plan.served.get(), self.misses.get());
        let dropped = self.drops.get() + self.plan.returned.get() + returns.blocks() + self.deferred_blocks.get();
        let busy_bytes = self.busy_bytes.get() + self.plan.busy_bytes.get();
        let busy_bytes = busy_bytes.saturating_sub(returns.bytes() + self.deferred_bytes.get());
        let busy_blocks = (hits + misses).saturating_sub(dropped);
        ScopeStats {
            entries: self.entries.get(),
            hits,
            misses,
            busy_blocks,
            busy_bytes,
            idle_blocks: self.held_blocks.get().saturating_sub(busy_blocks),
            idle_bytes: self.held_bytes.get().saturating_sub(busy_bytes),
            high_water_bytes: self.past_demand.get().max(self.demand.get()),
            device_allocations: self.device_allocations.get(),
            spare_bytes: self.demand.get().saturating_sub(busy_bytes),
        }
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
