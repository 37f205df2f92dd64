//! How a scope plans: [`PlanStats`].

use std::fmt;
use std::time::Duration;

use gpucache_engine::base::amounts::{Bytes, Count, combine};
use gpucache_engine::home::{Counter, Counts, Deviations};

/// How a scope with `recycle = "auto"` plans: its plans now, and counts since the process began. For several threads, each
/// number is the sum of theirs. [`Served::planned`](super::Served) counts the allocations that plans served.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// for _ in 0..10 {
///     cache_scope!(planned, { drop(Host::new().zeros::<u8>(4096)?) });
/// }
/// let plan = gpucache::stats("planned").unwrap().plan;
/// assert_eq!((plan.plans, plan.positions), (1, 1));
/// assert_eq!((plan.arena_bytes, plan.bound_bytes), (4096, 4096)); // no lower layout is possible
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PlanStats {
    /// Orders of allocations and drops that have a plan now: at most eight on each thread.
    pub plans: u64,
    /// Allocations for which those plans have a place.
    pub positions: u64,
    /// Bytes of the arena, in which all plans of a thread lie: the height of the highest layout. They count even while the thread
    /// has no memory for the arena.
    pub arena_bytes: u64,
    /// The least bytes that any layout of the highest plan could have.
    pub bound_bytes: u64,
    /// The planned allocations that the ring served: arrays that are alive when their successors are allocated.
    pub carried: u64,
    /// Allocations of arrays that outlive their entry, and for which neither arena nor ring has a place. Lists and the range serve
    /// them. Their sizes differ and they are dropped in no fixed order, or there are too few of them for a ring.
    pub aside: u64,
    /// Loops that were found inside entries. A loop that the program enters again counts again if its sizes have changed.
    pub loops: u64,
    /// Iterations of these loops. Each is planned like an entry.
    pub iterations: u64,
    /// How entries deviated from their plan.
    pub deviations: Deviations,
    /// Time spent on computing layouts.
    pub planning_time: Duration,
    /// Why no plan serves the scope now, on the first thread where that is so; `None` if plans serve it.
    pub unplanned: Option<Unplanned>,
}

/// Two lines: which plans there are, and how entries went.
impl fmt::Display for PlanStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plans, positions) = (Count(self.plans, "plan", "plans"), self.positions);
        let (bytes, bound, time) = (Bytes(self.arena_bytes), Bytes(self.bound_bytes), self.planning_time);
        let positions = Count(positions, "allocation", "allocations");
        writeln!(f, "{plans} of {positions} in {bytes} (at least {bound} needed), computed in {time:?}")?;
        write!(f, "{} carried, {} aside; deviations: {}", self.carried, self.aside, self.deviations)?;
        if self.loops > 0 {
            let loops = Count(self.loops, "loop", "loops");
            write!(f, "; {loops} found inside entries, {}", Count(self.iterations, "iteration", "iterations"))?;
        }
        self.unplanned.map_or(Ok(()), |why| write!(f, "; not planned: {why}"))
    }
}

impl PlanStats {
    pub(super) fn of(counts: &Counts) -> PlanStats {
        let get = |count| counts.get(count);
        let lacks_arena = get(Counter::PlanBytes) > 0 && get(Counter::Arena) + get(Counter::IsInside) == 0;
        let unplanned = match get(Counter::Plans) {
            0 if get(Counter::MovesRecur) > 0 => Some(Unplanned::MovesRecur),
            0 if get(Counter::HasStopped) > 0 => Some(Unplanned::Irregular),
            0 => Some(Unplanned::Learning),
            _ if lacks_arena => Some(Unplanned::Short),
            _ => None,
        };
        PlanStats {
            plans: get(Counter::Plans),
            positions: get(Counter::Positions),
            arena_bytes: get(Counter::PlanBytes),
            bound_bytes: get(Counter::BoundBytes),
            carried: get(Counter::Carried),
            aside: get(Counter::Aside),
            loops: get(Counter::Loops),
            iterations: get(Counter::Iterations),
            deviations: counts.deviations(),
            planning_time: Duration::from_nanos(get(Counter::PlanningTime)),
            unplanned,
        }
    }
}

combine! {
    PlanStats: carried aside loops iterations deviations planning_time; plans positions arena_bytes bound_bytes
}

/// Why no plan serves a scope with `recycle = "auto"` now. It is displayed as a sentence.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, stats::Unplanned};
///
/// cache_scope!(new, { drop(Host::new().zeros::<u8>(4096)?) });
/// let why = gpucache::stats("new").unwrap().plan.unplanned;
/// assert_eq!(why, Some(Unplanned::Learning));
/// assert_eq!(why.unwrap().to_string(), "no order of allocations and drops came twice yet");
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Unplanned {
    /// No order of allocations and drops came twice yet. Entries are recorded, unless the scope has another `recycle` than `"auto"`.
    Learning,
    /// Many entries were recorded, and no two had the same order. Recording pauses, and starts again later.
    Irregular,
    /// The scope has plans, but no room for their arena beside its live memory: no contiguous memory is free, or a limit forbids it. It
    /// tries again later.
    Short,
    /// With plans, pages of memory moved too often for what the plans served. Without plans, the scope makes few device calls, and reserves
    /// hardly more than is alive. It tries again later, and ever more rarely.
    MovesRecur,
}

impl fmt::Display for Unplanned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unplanned::Learning => "no order of allocations and drops came twice yet",
            Unplanned::Irregular => "no two of many entries had the same order of allocations; recording pauses",
            Unplanned::Short => {
                "the arena of the plans has no room: no contiguous memory is free for it, or a limit forbids it"
            }
            Unplanned::MovesRecur => {
                "with plans, pages of memory moved too often for what they served; the scope goes without plans for a while"
            }
        })
    }
}
