//! What a cache counts: numbers with one writer, each by its name. What happens to a cache is told to one method each, which counts it
//! once. [`Counts`](super::Counts) is a reading of them.

use std::array::from_fn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::returns::Returns;
use crate::range::Obtained;

/// Each number that is counted of a cache. Totals only grow; all else is as of now.
///
/// A live array is *beside plans* if neither the arena nor the ring of the scope's plans holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// How often the scope was entered.
    Entries,
    /// How often futures of the scope were polled.
    Polls,
    /// Allocations that a list served.
    Listed,
    /// Bytes of the allocations that a list served.
    ListedBytes,
    /// Allocations that neither a list nor a plan served, and those for which a ring grew.
    Supplied,
    /// Supplied allocations for which the device gave memory.
    Misses,
    /// Supplied allocations that the device itself served.
    Direct,
    /// Bytes of the allocations that the device itself served.
    DirectBytes,
    /// Bytes of the allocations that the device's range served.
    RangedBytes,
    /// Drops of blocks beside plans.
    Drops,
    /// Bytes in use beside plans.
    BusyBytes,
    /// Bytes that the cache holds, in use or idle.
    HeldBytes,
    /// Blocks that are held. Each position of a plan counts as one.
    HeldBlocks,
    /// The most bytes in use at once since the last invalidation.
    Demand,
    /// The most bytes in use at once since peaks were reset.
    Peak,
    /// The lesser of `Demand` and `Peak`: more bytes in use than that are noted.
    Mark,
    /// The most bytes in use at once beside the plan since the plan was installed.
    Beside,
    /// The most bytes in use at once beside plans since the owner last looked.
    BesideLately,
    /// The most bytes in use at once beside plans since peaks were reset.
    BesidePeak,
    /// The lesser of `BesideLately` and `BesidePeak`.
    BesideMark,
    /// Calls of the device's allocator.
    DeviceAllocations,
    /// Pieces of memory that were mapped.
    MappedPieces,
    /// Blocks that came back while other streams may still use them, and do not count as dropped yet.
    DeferredBlocks,
    /// Bytes of those blocks.
    DeferredBytes,
    /// Allocations that arenas served. The owner writes this number, and all that follow, at the end of each entry.
    PlanServed,
    /// Blocks in use in the arena.
    PlanLive,
    /// Blocks that were in use in an arena or ring when it was given up. They come back beside plans.
    Evicted,
    /// Allocations that rings served.
    Carried,
    /// Allocations that a ring served after it got more memory. They count as `Supplied` too.
    Grown,
    /// Blocks in use in the ring.
    RingBlocks,
    /// Bytes of the ring.
    RingBytes,
    /// Allocations that outlive their entry and that neither arena nor ring has a place for.
    Aside,
    /// The most bytes in use at once in arena and ring since peaks were reset.
    PlanPeak,
    /// Bytes of the places of all allocations that plans served, as of the last entry that ended.
    PlanServedBytes,
    /// How many allocations `PlanServedBytes` counts.
    Priced,
    /// Bytes of the arena; 0 while there is none.
    Arena,
    /// Orders of allocations and drops that have a plan.
    Plans,
    /// Allocations that those plans have a place for.
    Positions,
    /// Bytes of the highest plan.
    PlanBytes,
    /// The least bytes that any layout of the highest plan could have.
    BoundBytes,
    /// Nanoseconds spent on layouts.
    PlanningTime,
    /// 1 while planning pauses.
    HasStopped,
    /// Allocations of other crates that the scope served.
    #[cfg(feature = "foreign")]
    ForeignServed,
    /// Allocations of other crates that went on to the driver.
    #[cfg(feature = "foreign")]
    ForeignPassedOn,
    /// Allocations that the plan did not expect.
    Extra,
    /// Allocations that the plan expected and that never came.
    Missing,
    /// Allocations that came earlier or later than planned, and that the plan served.
    Reordered,
    /// Allocations of more bytes than their position has.
    Larger,
    /// Allocations whose place still held a live array.
    Blocked,
    /// Only in [`Counts`](super::Counts): bytes in use in arena and ring.
    PlannedBytes,
    /// Only in [`Counts`](super::Counts): blocks that other threads dropped and the owner has not taken back yet.
    ReturnedBlocks,
    /// Only in [`Counts`](super::Counts): bytes of those blocks.
    ReturnedBytes,
    /// Only in [`Counts`](super::Counts): blocks that were freed on another stream than their own.
    #[cfg(feature = "foreign")]
    FreedElsewhere,
}

/// How many numbers a cache counts.
pub(super) const COUNTED: usize = Counter::Blocked as usize + 1;

/// The numbers, written by the cache's owner alone, by plain loads and stores, and read by everyone.
pub(crate) struct Counters([AtomicU64; COUNTED]);

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

impl Default for Counters {
    fn default() -> Counters {
        Counters(from_fn(|_| AtomicU64::new(0)))
    }
}

/// The numbers by themselves.
impl Counters {
    /// All of them, one after the other.
    pub(super) fn read(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|number| number.load(Relaxed))
    }

    #[inline]
    pub(crate) fn get(&self, count: Counter) -> u64 {
        self.0[count as usize].load(Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, count: Counter, value: u64) {
        self.0[count as usize].store(value, Relaxed);
    }

    /// Adds to a number from which as much is subtracted later.
    #[inline]
    pub(crate) fn add(&self, count: Counter, more: u64) {
        self.set(count, self.get(count).wrapping_add(more));
    }

    /// Adds to a total of bytes, from which nothing is subtracted: beyond the largest number it stays there.
    #[inline]
    fn accumulate(&self, count: Counter, more: u64) {
        self.set(count, self.get(count).saturating_add(more));
    }

    #[inline]
    fn subtract(&self, count: Counter, less: u64) {
        self.set(count, self.get(count).wrapping_sub(less));
    }

    /// Notes that it was this much, if that is the most.
    fn raise(&self, count: Counter, value: u64) {
        self.set(count, value.max(self.get(count)));
    }
}

/// What happens to a cache.
impl Counters {
    #[inline]
    pub(crate) fn visited(&self, visit: Visit) {
        if !matches!(visit, Visit::LaterPoll) {
            self.add(Counter::Entries, 1);
        }
        if !matches!(visit, Visit::Entry) {
            self.add(Counter::Polls, 1);
        }
    }

    /// Counts a block that was supplied, for which so much was taken from the device; whether it came straight from there.
    pub(crate) fn allocated(&self, bytes: usize, taken: Obtained, is_direct: bool) {
        self.add(Counter::Supplied, 1);
        self.accumulate(if is_direct { Counter::DirectBytes } else { Counter::RangedBytes }, bytes as u64);
        self.add(Counter::Direct, u64::from(is_direct));
        self.add(Counter::Misses, u64::from(taken.is_any()));
        self.took(taken);
        self.add(Counter::HeldBlocks, 1);
        self.add(Counter::HeldBytes, bytes as u64);
    }

    /// Counts a block that is handed out beside a plan, of which `planned` bytes are in use.
    #[inline]
    pub(crate) fn handed_out(&self, bytes: usize, planned: u64, returns: &Returns) {
        // A scope holds no more than a number says ([`allowance`](crate::cache)), so that nothing wraps around.
        let busy = self.get(Counter::BusyBytes).wrapping_add(bytes as u64);
        self.set(Counter::BusyBytes, busy);
        if busy > self.get(Counter::BesideMark) || busy.wrapping_add(planned) > self.get(Counter::Mark) {
            // What other threads dropped is not in use, though this thread has not taken it back yet.
            let in_use = busy.saturating_sub(returns.bytes());
            [Counter::BesideLately, Counter::Beside, Counter::BesidePeak]
                .into_iter()
                .for_each(|most| self.raise(most, in_use));
            self.note_in_use(in_use.saturating_add(planned));
        }
    }

    /// Counts a block that a list serves.
    #[inline]
    pub(crate) fn hit(&self, bytes: usize) {
        self.add(Counter::Listed, 1);
        self.accumulate(Counter::ListedBytes, bytes as u64);
    }

    /// So many bytes are in use.
    fn note_in_use(&self, bytes: u64) {
        [Counter::Demand, Counter::Peak].into_iter().for_each(|most| self.raise(most, bytes));
        self.set_marks();
    }

    fn set_marks(&self) {
        self.set(Counter::Mark, self.get(Counter::Demand).min(self.get(Counter::Peak)));
        self.set(Counter::BesideMark, self.get(Counter::BesideLately).min(self.get(Counter::BesidePeak)));
    }

    /// For the owner: peaks are what is in use now, of which `planned` bytes are so by a plan.
    pub(super) fn reset_peaks(&self, planned: u64, returns: &Returns) {
        let beside = self.get(Counter::BusyBytes).saturating_sub(returns.bytes());
        self.set(Counter::Peak, beside.saturating_add(planned));
        self.set(Counter::BesidePeak, beside);
        self.set(Counter::PlanPeak, planned);
        self.set_marks();
    }

    /// Forgets how much was needed, but for the record.
    pub(super) fn renew_demand(&self) {
        [Counter::Demand, Counter::Beside, Counter::BesideLately].into_iter().for_each(|count| self.set(count, 0));
        self.set_marks();
    }

    /// Forgets what was in use beside a plan before the last time that this was forgotten.
    pub(crate) fn renew_beside(&self) {
        self.set(Counter::Beside, self.get(Counter::BesideLately));
        self.set(Counter::BesideLately, self.get(Counter::BusyBytes));
        self.set_marks();
    }

    /// How many bytes of a range are likely to be needed again: with room for blocks to lie apart, since a range reserves
    /// up to 1.1 times what is alive; a plan's block is as large as it need be. While another scope has the block's memory, what
    /// a ring holds is not all that the next entry needs.
    pub(crate) fn expected(&self) -> u64 {
        let (planned, demand) =
            (self.get(Counter::Arena).saturating_add(self.get(Counter::RingBytes)), self.get(Counter::Demand));
        let known = planned.saturating_add(self.get(Counter::Beside));
        match planned == 0 || self.lacks_arena() {
            true => known.max(demand.saturating_add(demand / 8)),
            false => known,
        }
    }

    /// Counts a block that comes back, and was not part of a plan.
    #[inline]
    pub(crate) fn dropped(&self, bytes: usize) {
        self.add(Counter::Drops, 1);
        self.subtract(Counter::BusyBytes, bytes as u64);
    }

    /// Counts a block that came back, and is kept until its stream is behind those that use it.
    pub(crate) fn deferred(&self, bytes: usize) {
        self.add(Counter::DeferredBlocks, 1);
        self.add(Counter::DeferredBytes, bytes as u64);
    }

    /// Its stream is behind them: it comes back now.
    pub(crate) fn resumed(&self, bytes: usize) {
        self.subtract(Counter::DeferredBlocks, 1);
        self.subtract(Counter::DeferredBytes, bytes as u64);
    }

    /// Counts a block that leaves the cache for good.
    pub(crate) fn released(&self, bytes: usize) {
        self.subtract(Counter::HeldBlocks, 1);
        self.subtract(Counter::HeldBytes, bytes as u64);
    }

    fn took(&self, Obtained { allocations, pieces }: Obtained) {
        self.add(Counter::DeviceAllocations, allocations);
        self.add(Counter::MappedPieces, pieces);
    }

    /// How many allocations neither plan nor ring served.
    pub(crate) fn unplanned(&self) -> u64 {
        self.get(Counter::Listed) + self.get(Counter::Supplied)
    }

    /// How often the device gave memory.
    pub(crate) fn times_taken(&self) -> u64 {
        self.get(Counter::DeviceAllocations) + self.get(Counter::MappedPieces)
    }

    /// Counts a plan's block, for which so much was taken from the device. What is needed beside it counts from now on.
    pub(crate) fn installed(&self, bytes: u64, positions: u64, taken: Obtained) {
        self.took(taken);
        self.add(Counter::HeldBlocks, positions);
        self.add(Counter::HeldBytes, bytes);
        self.set(Counter::Arena, bytes);
        [Counter::Beside, Counter::BesideLately]
            .into_iter()
            .for_each(|count| self.set(count, self.get(Counter::BusyBytes)));
        self.set_marks();
    }

    /// Counts a plan's block out, but for so many positions with so many bytes, which are in use on their own from now
    /// on. (Each will be counted as dropped, and as returned by the plan it will not be.)
    pub(crate) fn uninstalled(&self, bytes: u64, positions: u64, live: u64, live_bytes: u64) {
        // In this order: more may be in use than had a place when the block came.
        self.add(Counter::HeldBlocks, live);
        self.subtract(Counter::HeldBlocks, positions);
        self.add(Counter::HeldBytes, live_bytes);
        self.subtract(Counter::HeldBytes, bytes);
        [Counter::Arena, Counter::PlanLive].into_iter().for_each(|count| self.set(count, 0));
        self.evicted(live, live_bytes);
    }

    /// Counts more memory of a ring, for which so much was taken from the device.
    pub(crate) fn ring_grew(&self, bytes: u64, taken: Obtained) {
        self.took(taken);
        self.add(Counter::Misses, u64::from(taken.is_any()));
        [Counter::Supplied, Counter::Grown].into_iter().for_each(|count| self.add(count, 1));
        [Counter::HeldBytes, Counter::RingBytes].into_iter().for_each(|count| self.add(count, bytes));
    }

    /// Counts less memory of a ring.
    pub(crate) fn ring_shrank(&self, bytes: u64) {
        [Counter::HeldBytes, Counter::RingBytes].into_iter().for_each(|count| self.subtract(count, bytes));
    }

    /// As [`uninstalled`](Counters::uninstalled), for a ring.
    pub(crate) fn ring_given_up(&self, bytes: u64, live: u64, live_bytes: u64) {
        self.ring_shrank(bytes);
        self.add(Counter::HeldBlocks, live);
        self.add(Counter::HeldBytes, live_bytes);
        self.set(Counter::RingBlocks, 0);
        self.evicted(live, live_bytes);
    }

    fn evicted(&self, live: u64, live_bytes: u64) {
        self.add(Counter::Evicted, live);
        self.add(Counter::BusyBytes, live_bytes);
        [Counter::Beside, Counter::BesidePeak]
            .into_iter()
            .for_each(|most| self.raise(most, self.get(Counter::BusyBytes)));
        self.set_marks();
    }

    /// Tells what a plan and a ring served so far, and what is alive in each.
    pub(crate) fn note_plan(&self, (served, live): (u64, u64), (carried, in_ring): (u64, u64)) {
        self.set(Counter::PlanServed, served);
        self.set(Counter::PlanLive, live);
        self.set(Counter::Carried, carried);
        self.set(Counter::RingBlocks, in_ring);
    }

    /// Notes that so many bytes are in use by a plan. Returns how many may be before the next note.
    pub(crate) fn note_planned_use(&self, planned: u64, returns: &Returns) -> u64 {
        let busy = self.get(Counter::BusyBytes);
        if busy.wrapping_add(planned) > self.get(Counter::Mark) {
            self.note_in_use(busy.saturating_add(planned).saturating_sub(returns.bytes()));
        }
        self.raise(Counter::PlanPeak, planned);
        self.get(Counter::Mark).saturating_sub(busy).min(self.get(Counter::PlanPeak))
    }

    /// An entry ends: what plans served in it is priced, at the mean bytes of the places of the plan that served it last.
    pub(crate) fn price(&self, positions: u64, bytes: u64) {
        let all = self.get(Counter::PlanServed) + self.get(Counter::Carried);
        let served = all.wrapping_sub(self.get(Counter::Priced));
        self.set(Counter::Priced, all);
        let part = match served == positions {
            true => bytes,
            false => {
                u64::try_from(u128::from(bytes) * u128::from(served) / u128::from(positions.max(1))).unwrap_or(u64::MAX)
            }
        };
        self.accumulate(Counter::PlanServedBytes, part);
    }

    /// Whether plans have positions, and nothing to lay them in.
    fn lacks_arena(&self) -> bool {
        self.get(Counter::PlanBytes) > 0 && self.get(Counter::Arena) == 0
    }

    /// For the owner, when nothing is held any more: forgets everything.
    pub(super) fn reset(&self) {
        self.0.iter().for_each(|number| number.store(0, Relaxed));
    }
}
