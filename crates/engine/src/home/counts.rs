//! A reading of all counts of a cache, as plain numbers: [`Counts`].

use super::counter::Counter;
use super::counters::{COUNTED, Counters};
use super::deviations::Deviations;
use super::returns::Returns;
use crate::base::amounts::{add, total};
use crate::record::LentBlocks;

const LAST: Counter = Counter::LentBeside;

/// All counts of a cache, or their sums over several caches. While another thread works in the scope, the numbers are of slightly
/// different moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts([u64; LAST as usize + 1]);

impl Default for Counts {
    fn default() -> Counts {
        Counts([0; LAST as usize + 1])
    }
}

impl Counts {
    /// A reading of `counters`, with `planned` bytes in use by plans, and with these `lent` blocks.
    pub(super) fn of(counters: &Counters, returns: &Returns, planned: u64, lent: &LentBlocks) -> Counts {
        let mut counts = Counts::default();
        counts.0[..COUNTED].iter_mut().zip(counters.read()).for_each(|(count, number)| *count = number);
        // Such a block lies in the arena, or has escaped from it.
        let lent_bytes = lent.bytes();
        let in_arena = lent_bytes.min(planned);
        counts.set(Counter::PlannedBytes, planned - in_arena);
        counts.set(Counter::LentBlocks, lent.blocks());
        counts.set(Counter::LentBytes, lent_bytes);
        counts.set(Counter::LentBeside, lent_bytes - in_arena);
        counts.set(Counter::ReturnedBlocks, returns.blocks());
        counts.set(Counter::ReturnedBytes, returns.bytes());
        counts
    }

    pub(super) fn set(&mut self, count: Counter, value: u64) {
        self.0[count as usize] = value;
    }

    /// One of the numbers.
    #[inline]
    pub fn get(&self, count: Counter) -> u64 {
        self.0[count as usize]
    }

    /// How entries deviated from their plan.
    pub fn deviations(&self) -> Deviations {
        Deviations {
            extra: self.get(Counter::Extra),
            missing: self.get(Counter::Missing),
            reordered: self.get(Counter::Reordered),
            larger: self.get(Counter::Larger),
            blocked: self.get(Counter::Blocked),
        }
    }

    /// Allocations that arenas and rings served, including those for which a ring grew.
    pub fn planned(&self) -> u64 {
        total([self.get(Counter::PlanServed), self.get(Counter::Carried)])
    }

    /// Allocations that the cache served with memory that it had kept.
    pub fn hits(&self) -> u64 {
        total([self.get(Counter::Listed), self.planned()]).saturating_sub(self.get(Counter::Grown))
    }

    /// Blocks in use in arena and ring.
    pub fn planned_blocks(&self) -> u64 {
        // Those of scopes inside lie in the arena, unless they have escaped from it.
        let inside = if self.get(Counter::LentBeside) == 0 { self.get(Counter::LentBlocks) } else { 0 };
        let blocks = total([self.get(Counter::PlanLive), self.get(Counter::RingBlocks)]);
        blocks.saturating_sub(inside).min(self.busy_blocks())
    }

    /// Blocks in use, without those that another thread dropped.
    pub fn busy_blocks(&self) -> u64 {
        // Blocks of scopes inside are among those in plans, but not among the planned allocations. So nothing is subtracted before the end.
        let in_plans = [Counter::PlanLive, Counter::RingBlocks, Counter::Evicted].map(|count| self.get(count));
        let waiting =
            [Counter::ReturnedBlocks, Counter::DeferredBlocks, Counter::LentBlocks].map(|count| self.get(count));
        let dropped = total([self.get(Counter::Drops), self.planned()].into_iter().chain(waiting));
        let served = [self.hits(), self.get(Counter::Supplied)];
        total(served.into_iter().chain(in_plans)).saturating_sub(dropped)
    }

    /// Bytes of the blocks in use.
    pub fn busy_bytes(&self) -> u64 {
        // While another thread writes, the numbers may be of different moments. So a sum may be too large.
        let others = [Counter::ReturnedBytes, Counter::DeferredBytes, Counter::LentBeside];
        let waiting = total(others.map(|count| self.get(count)));
        total([Counter::BusyBytes, Counter::PlannedBytes].map(|count| self.get(count))).saturating_sub(waiting)
    }

    /// Bytes that the cache keeps for its next allocations.
    pub fn idle_bytes(&self) -> u64 {
        self.get(Counter::HeldBytes).saturating_sub(total([self.busy_bytes(), self.get(Counter::LentBytes)]))
    }

    /// The totals, for a cache that has no plans any more.
    pub(super) fn without_plans(mut self) -> Counts {
        let now = [Counter::Plans, Counter::Positions, Counter::PlanBytes, Counter::BoundBytes];
        let now = now.into_iter().chain([Counter::HasStopped, Counter::MovesRecur]);
        now.for_each(|count| self.set(count, 0));
        self
    }

    /// Sets the peaks to 0, for a cache in which nothing is in use.
    pub(crate) fn forget_peaks(&mut self) {
        [Counter::Peak, Counter::PlanPeak, Counter::BesidePeak].into_iter().for_each(|count| self.set(count, 0));
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| add(sum, more));
    }
}
