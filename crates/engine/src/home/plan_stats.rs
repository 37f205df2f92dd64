//! Statistics of planning: what [`PlanStats`] tells of a scope.

use std::fmt;
use std::time::Duration;

use super::counter::Counter;
use super::unplanned::Unplanned;
use crate::base::amounts::{Bytes, Count, add, total};

/// How a scope with `recycle = "auto"` plans and serves, over all threads: what plans there are now, and what was served and
/// seen since the process began. With several threads each number is the sum of theirs.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// for _ in 0..10 {
///     cache_scope!(planned, { drop(Host::new().zeros::<u8>(4096)?) });
/// }
/// let stats = gpucache::plan_stats("planned").unwrap();
/// assert_eq!((stats.plans, stats.positions, stats.planned), (1, 1, 8));
/// assert_eq!((stats.arena_bytes, stats.bound_bytes), (4096, 4096)); // no lower layout is possible
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PlanStats {
    /// Orders of allocations and drops that have a plan now: up to four on each thread.
    pub plans: u64,
    /// Allocations that those plans have a place for.
    pub positions: u64,
    /// Bytes of the arena in which all plans of a thread lie: as many as the highest of their layouts, whether the arena is there
    /// now or not.
    pub arena_bytes: u64,
    /// The least bytes that any layout of the highest plan could have.
    pub bound_bytes: u64,
    /// Allocations that a plan served: those of [`ScopeStats::hits`](crate::ScopeStats::hits) that no list did.
    pub planned: u64,
    /// Those of them that its ring served: of arrays that are alive when their successors are born.
    pub carried: u64,
    /// Allocations of arrays that outlive their entry and that neither arena nor ring has a place for: of unlike sizes and dropped
    /// in no order, or few enough to make a ring a waste. Lists and the range serve them.
    pub aside: u64,
    /// Allocations that a list of idle blocks served: the other hits.
    pub listed: u64,
    /// As [`ScopeStats::recycled`](crate::ScopeStats::recycled).
    pub recycled: u64,
    /// As [`ScopeStats::misses`](crate::ScopeStats::misses).
    pub misses: u64,
    /// Where entries went other ways than their plan.
    pub deviations: Deviations,
    /// Time spent on layouts.
    pub planning_time: Duration,
    /// Whether planning pauses now on any thread, as no order came twice. It is tried again later.
    pub is_paused: bool,
    /// Why no plan serves the scope now, on the first thread of which that is so; `None` where plans do.
    pub unplanned: Option<Unplanned>,
}

/// How often entries went other ways than their plan since the process began, by kind.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// for layers in [2, 2, 2, 2, 3] {
///     cache_scope!(extra, {
///         for _ in 0..layers {
///             drop(Host::new().zeros::<u8>(4096)?);
///         }
///     });
/// }
/// let stats = gpucache::plan_stats("extra").unwrap();
/// assert_eq!((stats.deviations.extra, stats.deviations.missing), (1, 0));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Deviations {
    /// Allocations that the plan did not expect, served beside it.
    pub extra: u64,
    /// Allocations that the plan expected and that never came.
    pub missing: u64,
    /// Allocations that came earlier or later than planned, and were served by the plan.
    pub reordered: u64,
    /// Allocations of more bytes than were ever seen at their position, served beside the plan.
    pub larger: u64,
    /// Allocations served beside the plan since an array that lived longer than planned was in their place.
    pub blocked: u64,
}

impl Deviations {
    /// All kinds together.
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*};
    ///
    /// for layers in [2, 2, 2, 2, 3] {
    ///     cache_scope!(deviating, {
    ///         for _ in 0..layers {
    ///             drop(Host::new().zeros::<u8>(4096)?);
    ///         }
    ///     });
    /// }
    /// let stats = gpucache::plan_stats("deviating").unwrap();
    /// assert_eq!(stats.deviations.total(), 1);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn total(&self) -> u64 {
        total([self.extra, self.missing, self.reordered, self.larger, self.blocked])
    }
}

impl fmt::Display for Deviations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Deviations { extra, missing, reordered, larger, blocked } = self;
        write!(f, "{extra} extra, {missing} missing, {reordered} reordered, {larger} larger, {blocked} blocked")
    }
}

/// Two lines: what plans there are, and how allocations were served.
impl fmt::Display for PlanStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allocations = |number| Count(number, "allocation", "allocations");
        let (plans, positions) = (Count(self.plans, "plan", "plans"), allocations(self.positions));
        let (bytes, bound, time) = (Bytes(self.arena_bytes), Bytes(self.bound_bytes), self.planning_time);
        write!(f, "{plans} of {positions} in {bytes} (no less than {bound}), laid out in {time:?}")?;
        writeln!(f, "{}", if self.is_paused { "; paused" } else { "" })?;
        let misses = Count(self.misses, "miss", "misses");
        let planned = allocations(self.planned);
        write!(f, "{planned} by plan ({} carried), {} by list, ", self.carried, self.listed)?;
        write!(f, "{} recycled, {misses}; {} aside; deviations: {}", self.recycled, self.aside, self.deviations)?;
        self.unplanned.map_or(Ok(()), |why| write!(f, "; not planned: {why}"))
    }
}

/// The numbers behind [`PlanStats`], told by the cache's owner at the end of each entry.
#[derive(Default)]
pub(crate) struct PlanCounters {
    /// What a plan served, and of that what is in use.
    pub(crate) served: Counter,
    pub(crate) live: Counter,
    /// What was live in a block that was given up; it comes back on its own.
    pub(crate) evicted: Counter,
    /// What a ring served, of that what is in use, and the bytes of the ring.
    pub(crate) carried: Counter,
    /// Requests that a ring served once it had more memory: supplied, as others are.
    pub(crate) grown: Counter,
    pub(crate) ring_blocks: Counter,
    pub(crate) ring: Counter,
    /// What outlives its entry and goes beside plans and rings.
    pub(crate) aside: Counter,
    /// The most bytes in use at once in arena and ring since peaks were reset.
    pub(crate) peak: Counter,
    /// What the places had of all that was served in entries that ended, and how much was served by then.
    pub(crate) served_bytes: Counter,
    pub(crate) priced: Counter,
    /// Bytes of the block, 0 while there is none.
    pub(crate) block: Counter,
    pub(crate) plans: Counter,
    pub(crate) positions: Counter,
    pub(crate) bytes: Counter,
    pub(crate) bound: Counter,
    pub(crate) planning: Counter,
    pub(crate) has_stopped: Counter,
    pub(crate) deviations: DeviationCounters,
}

#[derive(Default)]
pub(crate) struct DeviationCounters {
    extra: Counter,
    missing: Counter,
    reordered: Counter,
    larger: Counter,
    blocked: Counter,
}

impl PlanCounters {
    /// What plans and rings served from memory that they had.
    pub(crate) fn all_served(&self) -> u64 {
        (self.served.get() + self.carried.get()).saturating_sub(self.grown.get())
    }

    /// What plans and rings got back.
    pub(crate) fn returned(&self) -> u64 {
        let served = self.served.get() + self.carried.get();
        served.saturating_sub(self.live.get() + self.ring_blocks.get() + self.evicted.get())
    }

    /// Blocks in use in arena and ring.
    pub(super) fn blocks(&self) -> u64 {
        self.live.get() + self.ring_blocks.get()
    }

    /// Whether plans have positions, and nothing to lay them in.
    pub(crate) fn lacks_arena(&self) -> bool {
        self.bytes.get() > 0 && self.block.get() == 0
    }

    /// Why no plan serves.
    pub(crate) fn unplanned(&self) -> Option<Unplanned> {
        match self.plans.get() {
            0 if self.has_stopped.get() > 0 => Some(Unplanned::Irregular),
            0 => Some(Unplanned::Learning),
            _ if self.lacks_arena() => Some(Unplanned::Short),
            _ => None,
        }
    }

    pub(crate) fn reset(&self) {
        let PlanCounters { served, live, evicted, peak, served_bytes, priced, block, plans, positions, .. } = self;
        let PlanCounters { carried, grown, aside, ring_blocks, ring, .. } = self;
        let PlanCounters { bytes, bound, planning, has_stopped, deviations, .. } = self;
        let DeviationCounters { extra, missing, reordered, larger, blocked } = deviations;
        let all = [served, live, evicted, peak, served_bytes, priced, block, plans, positions, carried, grown, aside];
        let rest = [ring_blocks, ring, bytes, bound, planning, has_stopped, extra, missing, reordered, larger, blocked];
        all.iter().chain(&rest).for_each(|counter| counter.set(0));
    }
}

impl DeviationCounters {
    pub(crate) fn add(&self, seen: Deviations) {
        self.extra.add(seen.extra);
        self.missing.add(seen.missing);
        self.reordered.add(seen.reordered);
        self.larger.add(seen.larger);
        self.blocked.add(seen.blocked);
    }

    pub(crate) fn read(&self) -> Deviations {
        Deviations {
            extra: self.extra.get(),
            missing: self.missing.get(),
            reordered: self.reordered.get(),
            larger: self.larger.get(),
            blocked: self.blocked.get(),
        }
    }
}

impl std::ops::AddAssign for PlanStats {
    fn add_assign(&mut self, other: PlanStats) {
        add(&mut self.plans, other.plans);
        add(&mut self.positions, other.positions);
        add(&mut self.arena_bytes, other.arena_bytes);
        add(&mut self.bound_bytes, other.bound_bytes);
        add(&mut self.planned, other.planned);
        add(&mut self.carried, other.carried);
        add(&mut self.aside, other.aside);
        self.unplanned = self.unplanned.or(other.unplanned);
        add(&mut self.listed, other.listed);
        add(&mut self.recycled, other.recycled);
        add(&mut self.misses, other.misses);
        add(&mut self.deviations.extra, other.deviations.extra);
        add(&mut self.deviations.missing, other.deviations.missing);
        add(&mut self.deviations.reordered, other.deviations.reordered);
        add(&mut self.deviations.larger, other.deviations.larger);
        add(&mut self.deviations.blocked, other.deviations.blocked);
        self.planning_time = self.planning_time.saturating_add(other.planning_time);
        self.is_paused = self.is_paused || other.is_paused;
    }
}
