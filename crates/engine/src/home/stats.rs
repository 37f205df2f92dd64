//! What a cache counts: numbers with one writer, and what is read from them.

use std::time::Duration;

use super::counter::Counter;
use super::plan_stats::{PlanCounters, PlanStats};
use super::returns::Returns;
use super::scope_stats::ScopeStats;
use super::served::{Amount, InUse, ServedCounters};
use crate::base::amounts::total;
use crate::range::Obtained;

/// The numbers behind [`ScopeStats`], written by the cache's owner alone and read by everyone.
#[derive(Default)]
pub(crate) struct Counters {
    entries: Counter,
    polls: Counter,
    /// Allocations that a list served.
    pub(crate) hits: Counter,
    /// Allocations that neither a list nor a plan served, and those of them for which the device gave memory.
    supplied: Counter,
    misses: Counter,
    /// Drops of what was served beside a plan.
    drops: Counter,
    /// In use beside a plan.
    pub(crate) busy_bytes: Counter,
    pub(crate) held_bytes: Counter,
    /// Blocks that are held, each position of a plan counted as one.
    held_blocks: Counter,
    /// The most bytes in use at once since the last invalidation; since peaks were reset; and the lesser of the two, beyond which
    /// there is something to note.
    pub(crate) demand: Counter,
    peak: Counter,
    mark: Counter,
    /// The most in use at once beside a plan since that was installed.
    pub(crate) beside: Counter,
    /// The same since that was looked at last; since peaks were reset; and the lesser of the two.
    beside_lately: Counter,
    beside_peak: Counter,
    beside_mark: Counter,
    device_allocations: Counter,
    mapped_pieces: Counter,
    /// What came back while other streams may still use it, and was not counted as dropped yet.
    deferred_blocks: Counter,
    deferred_bytes: Counter,
    served: ServedCounters,
    pub(crate) plan: PlanCounters,
}

/// What brings a thread into a scope.
#[derive(Clone, Copy)]
pub enum Visit {
    /// An entry by a guard.
    Entry,
    /// The first poll of a future, which enters the scope for all that follow.
    FirstPoll,
    /// A later poll, which is no entry of its own.
    LaterPoll,
}

impl Counters {
    #[inline]
    pub(crate) fn entries(&self) -> u64 {
        self.entries.get()
    }

    #[inline]
    pub(crate) fn visited(&self, visit: Visit) {
        match visit {
            Visit::Entry => self.entries.add(1),
            Visit::FirstPoll => {
                self.entries.add(1);
                self.polls.add(1);
            }
            Visit::LaterPoll => self.polls.add(1),
        }
    }

    /// Counts a block that was supplied, for which so much was taken from the device; whether it came straight from there.
    pub(crate) fn allocated(&self, bytes: usize, taken: Obtained, is_direct: bool) {
        self.supplied.add(1);
        self.served.supplied(bytes as u64, is_direct);
        self.misses.add(u64::from(taken.is_any()));
        self.took(taken);
        self.held_blocks.add(1);
        self.held_bytes.add(bytes as u64);
    }

    /// Counts a block that is handed out beside a plan, of which `planned` bytes are in use.
    #[inline]
    pub(crate) fn handed_out(&self, bytes: usize, planned: u64, returns: &Returns) {
        // A scope holds no more than a number says ([`allowance`](crate::cache)), so that nothing wraps around.
        let busy = self.busy_bytes.get().wrapping_add(bytes as u64);
        self.busy_bytes.set(busy);
        if busy > self.beside_mark.get() || busy.wrapping_add(planned) > self.mark.get() {
            // What other threads dropped is not in use, though this thread has not taken it back yet.
            let in_use = busy.saturating_sub(returns.bytes());
            self.note_beside(in_use);
            self.note_in_use(in_use.saturating_add(planned));
        }
    }

    /// Counts a block that a list serves.
    #[inline]
    pub(crate) fn hit(&self, bytes: usize) {
        self.hits.add(1);
        self.served.listed.accumulate(bytes as u64);
    }

    /// So many bytes are in use.
    fn note_in_use(&self, bytes: u64) {
        self.demand.set(bytes.max(self.demand.get()));
        self.peak.set(bytes.max(self.peak.get()));
        self.set_marks();
    }

    /// So many bytes are in use beside a plan.
    fn note_beside(&self, bytes: u64) {
        [&self.beside_lately, &self.beside, &self.beside_peak]
            .into_iter()
            .for_each(|most| most.set(bytes.max(most.get())));
        self.set_marks();
    }

    fn set_marks(&self) {
        self.mark.set(self.demand.get().min(self.peak.get()));
        self.beside_mark.set(self.beside_lately.get().min(self.beside_peak.get()));
    }

    /// For the owner: peaks are what is in use now, of which `planned` bytes are so by a plan.
    pub(super) fn reset_peaks(&self, planned: u64, returns: &Returns) {
        let beside = self.busy_bytes.get().saturating_sub(returns.bytes());
        self.peak.set(beside.saturating_add(planned));
        self.beside_peak.set(beside);
        self.plan.peak.set(planned);
        self.set_marks();
    }

    /// Forgets how much was needed, but for the record.
    pub(super) fn renew_demand(&self) {
        [&self.demand, &self.beside, &self.beside_lately].into_iter().for_each(|counter| counter.set(0));
        self.set_marks();
    }

    /// Forgets what was in use beside a plan before the last time that this was forgotten.
    pub(crate) fn renew_beside(&self) {
        self.beside.set(self.beside_lately.get());
        self.beside_lately.set(self.busy_bytes.get());
        self.set_marks();
    }

    /// How many bytes of a range are likely to be needed again: with room for blocks to lie apart, since a range reserves
    /// up to 1.1 times what is alive; a plan's block is as large as it need be. While another scope has the block's memory, what
    /// a ring holds is not all that the next entry needs.
    pub(crate) fn expected(&self) -> u64 {
        let (planned, demand) = (self.plan.block.get().saturating_add(self.plan.ring.get()), self.demand.get());
        let known = planned.saturating_add(self.beside.get());
        match planned == 0 || self.plan.lacks_arena() {
            true => known.max(demand.saturating_add(demand / 8)),
            false => known,
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

    fn took(&self, Obtained { allocations, pieces }: Obtained) {
        self.device_allocations.add(allocations);
        self.mapped_pieces.add(pieces);
    }

    /// How many allocations neither plan nor ring served.
    pub(crate) fn unplanned(&self) -> u64 {
        self.hits.get() + self.supplied.get()
    }

    /// How often the device gave memory.
    pub(crate) fn times_taken(&self) -> u64 {
        self.device_allocations.get() + self.mapped_pieces.get()
    }

    /// Counts a plan's block, for which so much was taken from the device. What is needed beside it counts from now on.
    pub(crate) fn installed(&self, bytes: u64, positions: u64, taken: Obtained) {
        self.took(taken);
        self.held_blocks.add(positions);
        self.held_bytes.add(bytes);
        self.plan.block.set(bytes);
        self.beside.set(self.busy_bytes.get());
        self.beside_lately.set(self.busy_bytes.get());
        self.set_marks();
    }

    /// Counts a plan's block out, but for so many positions with so many bytes, which are in use on their own from now
    /// on. (Each will be counted as dropped, and as returned by the plan it will not be.)
    pub(crate) fn uninstalled(&self, bytes: u64, positions: u64, live: u64, live_bytes: u64) {
        // In this order: more may be in use than had a place when the block came.
        self.held_blocks.add(live);
        self.held_blocks.subtract(positions);
        self.held_bytes.add(live_bytes);
        self.held_bytes.subtract(bytes);
        self.plan.block.set(0);
        self.plan.live.set(0);
        self.evicted(live, live_bytes);
    }

    /// Counts more memory of a ring, for which so much was taken from the device.
    pub(crate) fn ring_grew(&self, bytes: u64, taken: Obtained) {
        self.took(taken);
        self.misses.add(u64::from(taken.is_any()));
        [&self.supplied, &self.plan.grown].into_iter().for_each(|counter| counter.add(1));
        self.held_bytes.add(bytes);
        self.plan.ring.add(bytes);
    }

    /// Counts less memory of a ring.
    pub(crate) fn ring_shrank(&self, bytes: u64) {
        self.held_bytes.subtract(bytes);
        self.plan.ring.subtract(bytes);
    }

    /// As [`uninstalled`](Counters::uninstalled), for a ring.
    pub(crate) fn ring_given_up(&self, bytes: u64, live: u64, live_bytes: u64) {
        self.ring_shrank(bytes);
        self.held_blocks.add(live);
        self.held_bytes.add(live_bytes);
        self.plan.ring_blocks.set(0);
        self.evicted(live, live_bytes);
    }

    fn evicted(&self, live: u64, live_bytes: u64) {
        self.plan.evicted.add(live);
        self.busy_bytes.add(live_bytes);
        self.beside.set(self.beside.get().max(self.busy_bytes.get()));
        self.beside_peak.set(self.beside_peak.get().max(self.busy_bytes.get()));
        self.set_marks();
    }

    /// Tells what a plan served and got back so far.
    pub(crate) fn note_plan(&self, served: u64, live: u64) {
        self.plan.served.set(served);
        self.plan.live.set(live);
    }

    /// Tells what a ring served so far, and what is alive in it.
    pub(crate) fn note_ring(&self, served: u64, live: u64) {
        self.plan.carried.set(served);
        self.plan.ring_blocks.set(live);
    }

    /// Notes that so many bytes are in use by a plan. Returns how many may be before the next note.
    pub(crate) fn note_planned_use(&self, planned: u64, returns: &Returns) -> u64 {
        let busy = self.busy_bytes.get();
        if busy.wrapping_add(planned) > self.mark.get() {
            self.note_in_use(busy.saturating_add(planned).saturating_sub(returns.bytes()));
        }
        self.plan.peak.set(self.plan.peak.get().max(planned));
        self.mark.get().saturating_sub(busy).min(self.plan.peak.get())
    }

    /// An entry ends: what plans served in it is priced, at the mean bytes of the places of the plan that served it last.
    pub(crate) fn price(&self, positions: u64, bytes: u64) {
        let all = self.plan.served.get() + self.plan.carried.get();
        let served = all.wrapping_sub(self.plan.priced.get());
        self.plan.priced.set(all);
        let part = match served == positions {
            true => bytes,
            false => {
                let part = u128::from(bytes) * u128::from(served) / u128::from(positions.max(1));
                u64::try_from(part).unwrap_or(u64::MAX)
            }
        };
        self.plan.served_bytes.accumulate(part);
    }

    /// For the owner: whether an array of the cache is alive, or on its way back.
    pub(crate) fn has_busy(&self) -> bool {
        let dropped = self.drops.get() + self.plan.returned();
        self.hits.get() + self.plan.all_served() + self.supplied.get() != dropped
    }

    /// For the owner, when nothing is held any more: forgets everything, and returns what was done.
    pub(crate) fn reset(&self, returns: &Returns) -> (ScopeStats, PlanStats) {
        let (scope, done) = (self.read(returns, 0), self.read_plans());
        let Counters { entries, polls, hits, supplied, misses, drops, busy_bytes, held_bytes, held_blocks, .. } = self;
        let Counters { demand, peak, mark, beside, beside_lately, beside_peak, beside_mark, .. } = self;
        let Counters { device_allocations, mapped_pieces, served, plan, .. } = self;
        let all = [entries, polls, hits, supplied, misses, drops, busy_bytes, held_bytes, held_blocks];
        let rest =
            [demand, peak, mark, beside, beside_lately, beside_peak, beside_mark, device_allocations, mapped_pieces];
        all.iter().chain(&rest).for_each(|counter| counter.set(0));
        served.reset();
        plan.reset();
        let (plans, positions, arena_bytes, bound_bytes) = (0, 0, 0, 0);
        let none = PlanStats { plans, positions, arena_bytes, bound_bytes, is_paused: false, unplanned: None, ..done };
        (scope, none)
    }

    /// What planning did.
    pub(crate) fn read_plans(&self) -> PlanStats {
        let plan = &self.plan;
        PlanStats {
            plans: plan.plans.get(),
            positions: plan.positions.get(),
            arena_bytes: plan.bytes.get(),
            bound_bytes: plan.bound.get(),
            planned: plan.all_served(),
            carried: plan.carried.get().saturating_sub(plan.grown.get()),
            listed: self.hits.get(),
            recycled: self.recycled(),
            misses: self.misses.get(),
            deviations: plan.deviations.read(),
            planning_time: Duration::from_nanos(plan.planning.get()),
            is_paused: plan.has_stopped.get() > 0,
            aside: plan.aside.get(),
            unplanned: plan.unplanned(),
        }
    }

    /// Another thread may read one number before an allocation and the other one behind it.
    fn recycled(&self) -> u64 {
        self.supplied.get().saturating_sub(self.misses.get())
    }

    /// What plans and their rings served, and its bytes as far as entries have ended.
    fn planned(&self) -> Amount {
        let allocations = self.plan.served.get() + self.plan.carried.get();
        Amount { allocations, bytes: self.plan.served_bytes.get() }
    }

    /// What the numbers say, with what lies on the return stack counted as idle, and so many bytes in use by plans.
    pub(crate) fn read(&self, returns: &Returns, planned: u64) -> ScopeStats {
        let hits = self.hits.get() + self.plan.all_served();
        let dropped = total([self.drops.get(), self.plan.returned(), returns.blocks(), self.deferred_blocks.get()]);
        // What one thread reads while another one writes need not be of one moment: sums may be of more than there is.
        let returned = returns.bytes().saturating_add(self.deferred_bytes.get());
        let busy_bytes = self.busy_bytes.get().saturating_add(planned).saturating_sub(returned);
        let busy_blocks = total([hits, self.supplied.get()]).saturating_sub(dropped);
        let (planned_bytes, planned_blocks) = (planned.min(busy_bytes), self.plan.blocks().min(busy_blocks));
        let in_use = |blocks, bytes, peak: &Counter| InUse { blocks, bytes, peak_bytes: peak.get() };
        let listed_and_supplied = (self.hits.get(), self.supplied.get().saturating_sub(self.plan.grown.get()));
        ScopeStats {
            entries: self.entries.get(),
            polls: self.polls.get(),
            hits,
            recycled: self.recycled(),
            misses: self.misses.get(),
            busy_blocks,
            busy_bytes,
            idle_blocks: (self.held_blocks.get() + self.plan.ring_blocks.get()).saturating_sub(busy_blocks),
            idle_bytes: self.held_bytes.get().saturating_sub(busy_bytes),
            high_water_bytes: self.peak.get(),
            device_allocations: self.device_allocations.get(),
            mapped_pieces: self.mapped_pieces.get(),
            spare_bytes: self.demand.get().saturating_sub(busy_bytes),
            served: self.served.read(listed_and_supplied.0, listed_and_supplied.1, self.planned()),
            planned: in_use(planned_blocks, planned_bytes, &self.plan.peak),
            beside: in_use(busy_blocks - planned_blocks, busy_bytes - planned_bytes, &self.beside_peak),
        }
    }
}
