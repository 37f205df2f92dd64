//! The numbers that a cache counts. Each has a name, and all but `FreedElsewhere` have one writer. Each kind of event has one method here,
//! which counts it once.
//! [`Counts`](super::Counts) is a reading of the numbers.

use std::array::from_fn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::counter::Counter;
use super::returns::Returns;
use crate::range::Obtained;

/// The number of counts in a cache.
pub(super) const COUNTED: usize = Counter::FreedElsewhere as usize + 1;

/// The numbers. Only the cache's owner writes them, with plain loads and stores; any thread adds to `FreedElsewhere`. All threads read them.
pub(crate) struct Counters([AtomicU64; COUNTED]);

/// The reason why a thread enters a scope.
#[derive(Clone, Copy)]
pub enum Visit {
    /// An entry by a guard.
    Entry,
    /// The first poll of a future. It counts as the entry for all polls.
    FirstPoll,
    /// A later poll. It does not count as an entry.
    LaterPoll,
    /// An entry of a thread that knows that nobody captures its stream.
    Uncaptured,
    /// As `Uncaptured`, an entry that no plan is known to serve, so that the planner records it.
    Learning,
    /// The thread enters once more a scope in which it is. It does not count.
    Again,
}

/// The bytes of a range for arrays of so many bytes that come and go beside `lasting` ones: an eighth more, for the gaps between them.
fn with_gaps(demand: u64, lasting: u64) -> u64 {
    demand.saturating_add(demand.saturating_sub(lasting) / 8)
}

/// A page of a GPU.
const PAGE: u64 = 2 << 20;

impl Default for Counters {
    fn default() -> Counters {
        Counters(from_fn(|_| AtomicU64::new(0)))
    }
}

/// Access to single numbers.
impl Counters {
    /// All numbers, in the order of [`Counter`].
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

    /// Adds to a number. The same amount is subtracted later.
    #[inline]
    pub(crate) fn add(&self, count: Counter, more: u64) {
        self.set(count, self.get(count).wrapping_add(more));
    }

    /// Adds to a total, from which nothing is ever subtracted. It stays at `u64::MAX` once it reaches it.
    #[inline]
    fn accumulate(&self, count: Counter, more: u64) {
        self.set(count, self.get(count).saturating_add(more));
    }

    /// Counts a block that the calling thread, which may be any thread, frees on another stream than the block's own.
    pub(crate) fn freed_elsewhere(&self) {
        self.0[Counter::FreedElsewhere as usize].fetch_add(1, Relaxed);
    }

    #[inline]
    fn subtract(&self, count: Counter, less: u64) {
        self.set(count, self.get(count).wrapping_sub(less));
    }

    /// Raises a maximum to `value`, if that is more.
    fn raise(&self, count: Counter, value: u64) {
        self.set(count, value.max(self.get(count)));
    }
}

/// The events of a cache.
impl Counters {
    #[inline]
    pub(crate) fn visited(&self, visit: Visit) {
        if !matches!(visit, Visit::LaterPoll | Visit::Again) {
            self.add(Counter::Entries, 1);
        }
        if matches!(visit, Visit::FirstPoll | Visit::LaterPoll) {
            self.add(Counter::Polls, 1);
        }
    }

    /// Counts a supplied block. `taken` came from the device for it. `is_direct` says that the device served it without the range.
    pub(crate) fn allocated(&self, bytes: usize, taken: Obtained, is_direct: bool) {
        self.add(Counter::Supplied, 1);
        self.accumulate(if is_direct { Counter::DirectBytes } else { Counter::RangedBytes }, bytes as u64);
        self.add(Counter::Direct, u64::from(is_direct));
        self.add(Counter::Misses, u64::from(taken.is_any()));
        self.took(taken);
        self.add(Counter::HeldBlocks, 1);
        self.add(Counter::HeldBytes, bytes as u64);
    }

    /// Counts a block that is handed out beside plans. The plans have `planned` bytes in use. Of all bytes, arenas of scopes inside have the `lent` ones.
    #[inline]
    pub(super) fn handed_out(&self, bytes: usize, planned: u64, returns: &Returns, lent: u64) {
        // A scope never holds more than `u64::MAX` bytes ([`allowance`](crate::cache)), so nothing wraps around.
        let busy = self.get(Counter::BusyBytes).wrapping_add(bytes as u64);
        self.set(Counter::BusyBytes, busy);
        if busy > self.get(Counter::BesideMark) || busy.wrapping_add(planned) > self.get(Counter::Mark) {
            // Blocks that other threads dropped are not in use, even if this thread has not taken them back yet.
            let in_use = busy.saturating_sub(returns.bytes());
            [Counter::BesideLately, Counter::Beside].into_iter().for_each(|most| self.raise(most, in_use));
            self.raise(Counter::BesidePeak, in_use.saturating_sub(lent.saturating_sub(planned)));
            self.note_in_use(in_use.saturating_add(planned), lent);
        }
    }

    /// Counts a block that a list serves.
    #[inline]
    pub(crate) fn hit(&self, bytes: usize) {
        self.add(Counter::Listed, 1);
        self.accumulate(Counter::ListedBytes, bytes as u64);
    }

    /// Raises the maxima to the bytes that are in use. Arenas of scopes inside are no use by this scope, but it needs their memory.
    fn note_in_use(&self, bytes: u64, lent: u64) {
        self.raise(Counter::Demand, bytes);
        self.raise(Counter::Peak, bytes.saturating_sub(lent));
        self.set_marks();
    }

    /// Raises the demand: with scopes inside, so many bytes beyond those beside plans are in use.
    pub(super) fn note_use_inside(&self, bytes: u64) {
        self.raise(Counter::Demand, self.get(Counter::BusyBytes).saturating_add(bytes));
        self.set_marks();
    }

    fn set_marks(&self) {
        self.set(Counter::Mark, self.get(Counter::Demand).min(self.get(Counter::Peak)));
        self.set(Counter::BesideMark, self.get(Counter::BesideLately).min(self.get(Counter::BesidePeak)));
    }

    /// For the owner: sets peaks to the bytes in use now. Plans have `planned` of them.
    pub(super) fn reset_peaks(&self, planned: u64, returns: &Returns, lent: u64) {
        let beside = self.get(Counter::BusyBytes).saturating_sub(returns.bytes());
        self.set(Counter::Peak, beside.saturating_add(planned).saturating_sub(lent));
        self.set(Counter::BesidePeak, beside.saturating_sub(lent.saturating_sub(planned)));
        self.set(Counter::PlanPeak, planned);
        self.set_marks();
    }

    /// Resets the demand. The peaks stay.
    pub(super) fn renew_demand(&self) {
        [Counter::Demand, Counter::Lasting, Counter::Beside, Counter::BesideLately]
            .into_iter()
            .for_each(|count| self.set(count, 0));
        self.set_marks();
    }

    /// Forgets the use beside plans from before the last call of this function, except that so many bytes are `expected` again.
    pub(crate) fn renew_beside(&self, expected: u64) {
        self.set(Counter::Beside, self.get(Counter::BesideLately).max(expected));
        self.set(Counter::BesideLately, self.get(Counter::BusyBytes));
        self.set_marks();
    }

    /// Takes the most bytes in use since the last call as the demand of a scope without plans that is in its first entry. The demand of
    /// others says how much an arena for their next entry may take. It stays as it is if the bytes that are likely to be needed again would fall
    /// by less than a page of a GPU.
    pub(crate) fn renew_first_demand(&self) {
        if !self.is_first_entry() || self.get(Counter::Plans) > 0 {
            return;
        }
        let [lately, lasting] = [Counter::BesideLately, Counter::BusyBytes].map(|count| self.get(count));
        if self.expected().saturating_sub(with_gaps(lately, lasting)) >= PAGE {
            self.set(Counter::Demand, lately);
            self.set(Counter::Lasting, lasting);
        }
        self.renew_beside(0);
    }

    /// Whether the scope was not entered a second time.
    fn is_first_entry(&self) -> bool {
        self.get(Counter::Entries) <= 1
    }

    /// How many bytes of a range the scope is likely to need again. Without plans, an eighth is added for arrays to come, since a range
    /// reserves up to 1.1 times the live memory; the block of a plan has no such gaps. While another scope has the memory of that
    /// block, the ring alone is less than the next entry needs.
    pub(crate) fn expected(&self) -> u64 {
        let (planned, demand) =
            (self.get(Counter::Arena).saturating_add(self.get(Counter::RingBytes)), self.get(Counter::Demand));
        let known = planned.saturating_add(self.get(Counter::Beside));
        let lasting = if self.is_first_entry() { self.get(Counter::Lasting) } else { 0 };
        match self.get(Counter::IsInside) == 0 && (planned == 0 || self.lacks_arena()) {
            true => known.max(with_gaps(demand, lasting)),
            false => known,
        }
    }

    /// Counts the return of a block that was not part of a plan.
    #[inline]
    pub(crate) fn dropped(&self, bytes: usize) {
        self.add(Counter::Drops, 1);
        self.subtract(Counter::BusyBytes, bytes as u64);
    }

    /// Counts a returned block that is kept until its stream is behind the streams that use it.
    pub(crate) fn deferred(&self, bytes: usize) {
        self.add(Counter::DeferredBlocks, 1);
        self.add(Counter::DeferredBytes, bytes as u64);
    }

    /// The stream of such a block is behind the other streams now.
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

    /// The number of allocations that neither plan nor ring served.
    pub(crate) fn unplanned(&self) -> u64 {
        self.get(Counter::Listed) + self.get(Counter::Supplied)
    }

    /// The number of allocations, however they were served, as of the last entry or iteration that ended.
    pub(crate) fn allocations(&self) -> u64 {
        self.unplanned() + self.get(Counter::PlanServed) + self.get(Counter::Carried) - self.get(Counter::Grown)
    }

    /// How often the device gave memory.
    pub(crate) fn times_taken(&self) -> u64 {
        self.get(Counter::DeviceAllocations) + self.get(Counter::MappedPieces)
    }

    /// Counts the block of a plan. `taken` came from the device for it. The use beside plans is counted anew from now on.
    pub(crate) fn installed(&self, bytes: u64, positions: u64, taken: Obtained) {
        self.took(taken);
        self.add(Counter::HeldBlocks, positions);
        self.add(Counter::HeldBytes, bytes);
        self.set(Counter::Arena, bytes);
        self.set(Counter::IsInside, 0);
        [Counter::Beside, Counter::BesideLately]
            .into_iter()
            .for_each(|count| self.set(count, self.get(Counter::BusyBytes)));
        self.set_marks();
    }

    /// Counts the block of a plan in the arena of the scope around.
    pub(crate) fn installed_inside(&self, bytes: u64, positions: u64) {
        self.add(Counter::HeldBlocks, positions);
        self.add(Counter::HeldBytes, bytes);
        self.set(Counter::Inside, bytes);
        self.set(Counter::IsInside, 1);
    }

    /// Counts it out, with nothing alive in it.
    pub(crate) fn left_inside(&self, positions: u64) {
        self.subtract(Counter::HeldBlocks, positions);
        self.subtract(Counter::HeldBytes, self.get(Counter::Inside));
        self.set(Counter::Inside, 0);
    }

    /// Counts the block of a plan out. `live` of its positions, with `live_bytes`, stay in use beside plans. Each of them will count as
    /// dropped, and not as returned to the plan. Arenas of scopes inside have the `lent` bytes.
    pub(crate) fn uninstalled(&self, bytes: u64, positions: u64, (live, live_bytes): (u64, u64), lent: u64) {
        // Added before it is subtracted: more positions may be in use than the block had when it came.
        self.add(Counter::HeldBlocks, live);
        self.subtract(Counter::HeldBlocks, positions);
        self.add(Counter::HeldBytes, live_bytes);
        self.subtract(Counter::HeldBytes, bytes);
        [Counter::Arena, Counter::Inside, Counter::IsInside, Counter::PlanLive]
            .into_iter()
            .for_each(|count| self.set(count, 0));
        self.evicted((live, live_bytes), lent);
    }

    /// Counts more memory of a ring. `taken` came from the device for it.
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

    /// Counts a ring out, like [`uninstalled`](Counters::uninstalled).
    pub(crate) fn ring_given_up(&self, bytes: u64, (live, live_bytes): (u64, u64), lent: u64) {
        self.ring_shrank(bytes);
        self.add(Counter::HeldBlocks, live);
        self.add(Counter::HeldBytes, live_bytes);
        self.set(Counter::RingBlocks, 0);
        self.evicted((live, live_bytes), lent);
    }

    fn evicted(&self, (live, live_bytes): (u64, u64), lent: u64) {
        self.add(Counter::Evicted, live);
        self.add(Counter::BusyBytes, live_bytes);
        let busy = self.get(Counter::BusyBytes);
        self.raise(Counter::Beside, busy);
        self.raise(Counter::BesidePeak, busy.saturating_sub(lent));
        self.set_marks();
    }

    /// Sets how many allocations plan and ring served so far, and how many are alive in each.
    pub(crate) fn note_plan(&self, (served, live): (u64, u64), (carried, in_ring): (u64, u64)) {
        self.set(Counter::PlanServed, served);
        self.set(Counter::PlanLive, live);
        self.set(Counter::Carried, carried);
        self.set(Counter::RingBlocks, in_ring);
    }

    /// Notes that plans have so many bytes in use. Returns how many they may have before the next note is due.
    pub(crate) fn note_planned_use(&self, planned: u64, returns: &Returns, lent: u64) -> u64 {
        let busy = self.get(Counter::BusyBytes);
        if busy.wrapping_add(planned) > self.get(Counter::Mark) {
            self.note_in_use(busy.saturating_add(planned).saturating_sub(returns.bytes()), lent);
        }
        self.raise(Counter::PlanPeak, planned.saturating_sub(lent));
        self.get(Counter::Mark).saturating_sub(busy).min(self.get(Counter::PlanPeak))
    }

    /// At the end of an entry: adds the bytes of its planned allocations, at the mean bytes of a place in the plan that served last.
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

    /// Whether there are plans with positions, and no arena for them.
    fn lacks_arena(&self) -> bool {
        self.get(Counter::PlanBytes) > 0 && self.get(Counter::Arena) == 0
    }

    /// For the owner, when the cache holds nothing: sets all numbers to 0.
    pub(super) fn reset(&self) {
        self.0.iter().for_each(|number| number.store(0, Relaxed));
    }
}
