//! Statistics of planning: what [`PlanStats`] tells of a scope.

use std::fmt;
use std::time::Duration;

use super::counters::{Counter, Counters};
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
    /// Where entries went other ways than their plan.
    pub deviations: Deviations,
    /// Time spent on layouts.
    pub planning_time: Duration,
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

impl Deviations {
    /// Counts those of an entry.
    pub(crate) fn count(&self, counters: &Counters) {
        counters.add(Counter::Extra, self.extra);
        counters.add(Counter::Missing, self.missing);
        counters.add(Counter::Reordered, self.reordered);
        counters.add(Counter::Larger, self.larger);
        counters.add(Counter::Blocked, self.blocked);
    }
}

impl fmt::Display for Deviations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Deviations { extra, missing, reordered, larger, blocked } = self;
        write!(f, "{extra} extra, {missing} missing, {reordered} reordered, {larger} larger, {blocked} blocked")
    }
}

/// Two lines: what plans there are, and what they served.
impl fmt::Display for PlanStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allocations = |number| Count(number, "allocation", "allocations");
        let (plans, positions) = (Count(self.plans, "plan", "plans"), allocations(self.positions));
        let (bytes, bound, time) = (Bytes(self.arena_bytes), Bytes(self.bound_bytes), self.planning_time);
        writeln!(f, "{plans} of {positions} in {bytes} (no less than {bound}), laid out in {time:?}")?;
        let (planned, aside, deviations) = (allocations(self.planned), self.aside, self.deviations);
        write!(f, "{planned} by plan ({} carried), {aside} aside; deviations: {deviations}", self.carried)?;
        self.unplanned.map_or(Ok(()), |why| write!(f, "; not planned: {why}"))
    }
}

impl PlanStats {
    /// What the numbers of a cache say.
    pub(super) fn of(counters: &Counters) -> PlanStats {
        let get = |count| counters.get(count);
        let unplanned = match get(Counter::Plans) {
            0 if get(Counter::HasStopped) > 0 => Some(Unplanned::Irregular),
            0 => Some(Unplanned::Learning),
            _ if counters.lacks_arena() => Some(Unplanned::Short),
            _ => None,
        };
        PlanStats {
            plans: get(Counter::Plans),
            positions: get(Counter::Positions),
            arena_bytes: get(Counter::PlanBytes),
            bound_bytes: get(Counter::BoundBytes),
            planned: counters.all_served(),
            carried: get(Counter::Carried).saturating_sub(get(Counter::Grown)),
            aside: get(Counter::Aside),
            deviations: Deviations {
                extra: get(Counter::Extra),
                missing: get(Counter::Missing),
                reordered: get(Counter::Reordered),
                larger: get(Counter::Larger),
                blocked: get(Counter::Blocked),
            },
            planning_time: Duration::from_nanos(get(Counter::PlanningTime)),
            unplanned,
        }
    }

    /// The same once there are no plans any more.
    pub(super) fn without_plans(self) -> PlanStats {
        PlanStats { plans: 0, positions: 0, arena_bytes: 0, bound_bytes: 0, unplanned: None, ..self }
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
        add(&mut self.deviations.extra, other.deviations.extra);
        add(&mut self.deviations.missing, other.deviations.missing);
        add(&mut self.deviations.reordered, other.deviations.reordered);
        add(&mut self.deviations.larger, other.deviations.larger);
        add(&mut self.deviations.blocked, other.deviations.blocked);
        self.planning_time = self.planning_time.saturating_add(other.planning_time);
    }
}

/// Why no plan serves a scope with `recycle = "auto"` now; shown as a sentence.
///
/// ```
/// use gpucache::{Unplanned, cache_scope, prelude::*};
///
/// cache_scope!(new, { drop(Host::new().zeros::<u8>(4096)?) });
/// let why = gpucache::plan_stats("new").unwrap().unplanned;
/// assert_eq!(why, Some(Unplanned::Learning));
/// assert_eq!(why.unwrap().to_string(), "no order of allocations and drops came twice yet");
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Unplanned {
    /// No order of allocations and drops came twice yet. Entries are recorded.
    Learning,
    /// No two entries of many had the same order. Recording pauses, and is tried again later.
    Irregular,
    /// There are plans, and no stretch of memory for them beside what is in use. It is looked for again later.
    Short,
}

impl fmt::Display for Unplanned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unplanned::Learning => "no order of allocations and drops came twice yet",
            Unplanned::Irregular => "no two entries of many had the same order of allocations: recording pauses",
            Unplanned::Short => "no stretch of memory is left for the plans beside what is in use",
        })
    }
}
