//! Statistics of planning: what [`PlanStats`] tells of a scope.

use std::time::Duration;

use super::counter::Counter;

/// How a scope with `recycle = "auto"` plans and serves, over all threads: what plans there are now, and what
/// was served and seen since the process began.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// for _ in 0..10 {
///     cache_scope!(planned, { drop(Host::new().zeros::<u8>(4096)?) });
/// }
/// let stats = gpucache::plan_stats("planned").unwrap();
/// assert_eq!((stats.plans, stats.positions, stats.planned), (1, 1, 8));
/// assert_eq!((stats.bytes, stats.bound), (4096, 4096)); // no lower layout is possible
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanStats {
    /// Orders of events that have a plan.
    pub plans: u64,
    /// Allocations that those plans lay out.
    pub positions: u64,
    /// The block that they share, in bytes: the height of the highest layout.
    pub bytes: u64,
    /// No layout of the highest plan is lower than this many bytes.
    pub bound: u64,
    /// Allocations that a plan's cursor served.
    pub planned: u64,
    /// Allocations that a keyed list served.
    pub listed: u64,
    /// Allocations that the device's range, or the device, served.
    pub ranged: u64,
    /// Where entries went other ways than their plan.
    pub deviations: Deviations,
    /// Time spent on layouts.
    pub planning: Duration,
    /// Whether planning has been given up for now, as no order came twice.
    pub has_stopped: bool,
}

/// How often entries went other ways than their plan, by kind.
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
        self.extra + self.missing + self.reordered + self.larger + self.blocked
    }
}

/// The numbers behind [`PlanStats`], told by the cache's owner at the end of each entry.
#[derive(Default)]
pub(crate) struct PlanCounters {
    /// What a plan served, and got back.
    pub(crate) served: Counter,
    pub(crate) returned: Counter,
    /// What was live in a block that was given up; it comes back on its own.
    pub(crate) evicted: Counter,
    /// Bytes in use that a plan serves.
    pub(crate) busy_bytes: Counter,
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
    pub(crate) fn reset(&self) {
        let PlanCounters { served, returned, evicted, busy_bytes, block, plans, positions, .. } = self;
        let PlanCounters { bytes, bound, planning, has_stopped, deviations, .. } = self;
        let DeviationCounters { extra, missing, reordered, larger, blocked } = deviations;
        let all = [served, returned, evicted, busy_bytes, block, plans, positions];
        let rest = [bytes, bound, planning, has_stopped, extra, missing, reordered, larger, blocked];
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
        self.plans += other.plans;
        self.positions += other.positions;
        self.bytes += other.bytes;
        self.bound += other.bound;
        self.planned += other.planned;
        self.listed += other.listed;
        self.ranged += other.ranged;
        self.deviations.extra += other.deviations.extra;
        self.deviations.missing += other.deviations.missing;
        self.deviations.reordered += other.deviations.reordered;
        self.deviations.larger += other.deviations.larger;
        self.deviations.blocked += other.deviations.blocked;
        self.planning += other.planning;
        self.has_stopped |= other.has_stopped;
    }
}
