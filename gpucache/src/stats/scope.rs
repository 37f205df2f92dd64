//! Statistics of a scope: what [`ScopeStats`] tells of it.

use std::fmt;

use super::counters::{Counter, Counters};
use super::returns::Returns;
use super::served::{InUse, Served};
use crate::base::amounts::{Bytes, Count, add, total};

/// What a scope did since the process began, and what it holds now, over all threads.
///
/// Each allocation on a thread that is inside the scope, and in no other one further inside, is one hit, one recycled block or
/// one miss ([`allocations`](ScopeStats::allocations)); one that failed is none. Bytes are those of the arrays, as they were
/// asked for, but for those of a plan's arena. While other threads work in the scope, the numbers are of slightly
/// different moments.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// let host = Host::new();
/// for _ in 0..3 {
///     cache_scope!(forward, {
///         let hidden = Array::<f32, _>::zeros(&host, [32, 64])?;
///         let _output = Array::<f32, _>::zeros(&host, [32, 10])?; // in the page that `hidden` does not fill
///         drop(hidden);
///     });
/// }
/// let stats = gpucache::stats("forward").unwrap();
/// assert_eq!((stats.entries, stats.hits, stats.recycled, stats.misses), (3, 4, 1, 1));
/// assert_eq!((stats.device_allocations, stats.mapped_pieces), (0, 1)); // on Linux, where a host has pages
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ScopeStats {
    /// How often the scope was entered, entries within entries included. A call of an `async fn` enters once, when it is polled
    /// for the first time.
    pub entries: u64,
    /// How often futures of the scope were polled, the first time included. Each poll is inside the scope while it runs.
    pub polls: u64,
    /// Allocations that the scope served with what it had kept: a block of a list, or a place in its plan.
    pub hits: u64,
    /// Allocations that the scope had nothing for, and the device was not asked for either: what this scope or another one
    /// had given back to the device's range served them. Arrays without bytes, which need no memory, count here or as hits.
    pub recycled: u64,
    /// Allocations for which memory was taken from the device: by a call of its allocator, or by mapping pages.
    pub misses: u64,
    /// Blocks in use by arrays now, those of arrays that left the scope included.
    pub busy_blocks: u64,
    /// Their bytes.
    pub busy_bytes: u64,
    /// Blocks that the scope keeps for its next allocations now: those in its lists, and the free places of a plan that has an
    /// arena. What went back to the device's range is none of these.
    pub idle_blocks: u64,
    /// Their bytes. Places of a plan may lie over each other, so that all that is free in the arena counts, once.
    pub idle_bytes: u64,
    /// The most bytes that were in use at once since the process began, or since
    /// `reset_peaks_of`; with several threads the sum of the most that was in use on each.
    pub high_water_bytes: u64,
    /// Calls of the device's allocator for the scope since the process began: those of misses with `recycle = "off"` or on a
    /// device without pages, for an array or for a chunk of a range.
    pub device_allocations: u64,
    /// Pieces of memory that were mapped for the scope since the process began, by its misses and for the arenas of its plans. A
    /// piece is one page or several, which are mapped and unmapped together.
    pub mapped_pieces: u64,
    /// Bytes that were in use at once since the last invalidation, and are not now: what the scope is likely to need again,
    /// whether it keeps them itself or the device's range has them.
    pub spare_bytes: u64,
    /// Allocations and their bytes, by what served them.
    pub served: Served,
    /// What is in use that a plan served, and lies in its arena or ring. What another thread dropped counts until its owner has taken
    /// it back.
    pub planned: InUse,
    /// All else that is in use.
    pub beside: InUse,
}

impl ScopeStats {
    /// What was done since an earlier reading. What is held and in use, and peaks, are those of this reading.
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*};
    ///
    /// cache_scope!(phases, { Host::new().zeros::<u8>(4096)? });
    /// let warm = gpucache::stats("phases").unwrap();
    /// cache_scope!(phases, { Host::new().zeros::<u8>(4096)? });
    /// let since = gpucache::stats("phases").unwrap().since(&warm);
    /// assert_eq!((since.entries, since.hits, since.misses), (1, 1, 0));
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn since(&self, earlier: &ScopeStats) -> ScopeStats {
        let mut since = *self;
        since.combine(earlier, u64::saturating_sub);
        since
    }

    /// All allocations since the process began: hits, recycled blocks and misses.
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*};
    ///
    /// for _ in 0..3 {
    ///     cache_scope!(counted, { Host::new().zeros::<u8>(4096)? });
    /// }
    /// assert_eq!(gpucache::stats("counted").unwrap().allocations(), 3);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn allocations(&self) -> u64 {
        total([self.hits, self.recycled, self.misses])
    }
}

impl ScopeStats {
    /// What the numbers of a cache say, with what lies on the return stack counted as idle, and so many bytes in use by plans.
    pub(super) fn of(counters: &Counters, returns: &Returns, planned: u64) -> ScopeStats {
        let get = |count| counters.get(count);
        let hits = get(Counter::Listed) + counters.all_served();
        let dropped = total([get(Counter::Drops), counters.returned(), returns.blocks(), get(Counter::DeferredBlocks)]);
        // What one thread reads while another one writes need not be of one moment: sums may be of more than there is.
        let returned = returns.bytes().saturating_add(get(Counter::DeferredBytes));
        let busy_bytes = get(Counter::BusyBytes).saturating_add(planned).saturating_sub(returned);
        let busy_blocks = total([hits, get(Counter::Supplied)]).saturating_sub(dropped);
        let (planned_bytes, planned_blocks) = (planned.min(busy_bytes), counters.plan_blocks().min(busy_blocks));
        ScopeStats {
            entries: get(Counter::Entries),
            polls: get(Counter::Polls),
            hits,
            recycled: get(Counter::Supplied).saturating_sub(get(Counter::Misses)),
            misses: get(Counter::Misses),
            busy_blocks,
            busy_bytes,
            idle_blocks: (get(Counter::HeldBlocks) + get(Counter::RingBlocks)).saturating_sub(busy_blocks),
            idle_bytes: get(Counter::HeldBytes).saturating_sub(busy_bytes),
            high_water_bytes: get(Counter::Peak),
            device_allocations: get(Counter::DeviceAllocations),
            mapped_pieces: get(Counter::MappedPieces),
            spare_bytes: get(Counter::Demand).saturating_sub(busy_bytes),
            served: Served::of(counters),
            planned: InUse { blocks: planned_blocks, bytes: planned_bytes, peak_bytes: get(Counter::PlanPeak) },
            beside: InUse {
                blocks: busy_blocks - planned_blocks,
                bytes: busy_bytes - planned_bytes,
                peak_bytes: get(Counter::BesidePeak),
            },
        }
    }

    /// Combines what was done, which only grows, with that of another reading.
    fn combine(&mut self, other: &ScopeStats, with: fn(u64, u64) -> u64) {
        let ScopeStats { entries, polls, hits, recycled, misses, device_allocations, mapped_pieces, .. } = self;
        let own = [entries, polls, hits, recycled, misses, device_allocations, mapped_pieces];
        let ScopeStats { entries, polls, hits, recycled, misses, device_allocations, mapped_pieces, .. } = *other;
        let others = [entries, polls, hits, recycled, misses, device_allocations, mapped_pieces];
        own.into_iter().zip(others).for_each(|(own, other)| *own = with(*own, other));
        self.served.combine(&other.served, with);
    }

    /// Of what nothing is in use any more.
    pub(crate) fn forget_peaks(&mut self) {
        (self.high_water_bytes, self.planned.peak_bytes, self.beside.peak_bytes) = (0, 0, 0);
    }
}

/// Two lines, what was done and what is held; then a table of what served the allocations. `{:#}` leaves the table out.
impl fmt::Display for ScopeStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = Count(self.entries, "entry", "entries");
        let allocations = Count(self.allocations(), "allocation", "allocations");
        let (hits, misses) = (Count(self.hits, "hit", "hits"), Count(self.misses, "miss", "misses"));
        write!(f, "{entries}")?;
        if self.polls > 0 {
            write!(f, " ({})", Count(self.polls, "poll", "polls"))?;
        }
        writeln!(f, ", {allocations}: {hits}, {} recycled, {misses}", self.recycled)?;
        let blocks = |number| Count(number, "block", "blocks");
        let (busy, idle, most) = (Bytes(self.busy_bytes), Bytes(self.idle_bytes), Bytes(self.high_water_bytes));
        write!(f, "{busy} in use in {}, {most} at most; ", blocks(self.busy_blocks))?;
        write!(f, "{idle} idle in {}", blocks(self.idle_blocks))?;
        if f.alternate() { Ok(()) } else { write!(f, "\n{}", self.served.table(&self.planned, &self.beside)) }
    }
}

impl std::ops::AddAssign for ScopeStats {
    fn add_assign(&mut self, other: ScopeStats) {
        self.combine(&other, u64::saturating_add);
        add(&mut self.busy_blocks, other.busy_blocks);
        add(&mut self.busy_bytes, other.busy_bytes);
        add(&mut self.idle_blocks, other.idle_blocks);
        add(&mut self.idle_bytes, other.idle_bytes);
        add(&mut self.high_water_bytes, other.high_water_bytes);
        add(&mut self.spare_bytes, other.spare_bytes);
        self.planned += other.planned;
        self.beside += other.beside;
    }
}
