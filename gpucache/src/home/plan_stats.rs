//! Statistics of planning: what [`PlanStats`] tells of a scope.

use std::time::Duration;

use super::counter::Counter;

/// How a scope with `recycle = "auto"` plans and serves, over all threads: what plans there are now, and what
/// was served and seen since the process began.
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
    /// Allocations that the plan's ring served: of arrays that are alive when their successors are born.
    pub carried: u64,
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
    pub fn total(&self) -> u64 {
        self.extra + self.missing + self.reordered + self.larger + self.blocked
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
    /// What a ring served, of that what is in use with its bytes, and the bytes of the ring.
    pub(crate) carried: Counter,
    pub(crate) ring_blocks: Counter,
    pub(crate) ring_busy_bytes: Counter,
    pub(crate) ring: Counter,
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
    /// What plans and rings served.
    pub(crate) fn all_served(&self) -> u64 {
        self.served.get() + self.carried.get()
    }

    /// What plans and rings got back.
    pub(crate) fn returned(&self) -> u64 {
        self.all_served().saturating_sub(self.live.get() + self.ring_blocks.get() + self.evicted.get())
    }

    pub(crate) fn reset(&self) {
        let PlanCounters { served, live, evicted, busy_bytes, block, plans, positions, .. } = self;
        let PlanCounters { carried, ring_blocks, ring_busy_bytes, ring, .. } = self;
        let PlanCounters { bytes, bound, planning, has_stopped, deviations, .. } = self;
        let DeviationCounters { extra, missing, reordered, larger, blocked } = deviations;
        let all = [served, live, evicted, busy_bytes, block, plans, positions, carried, ring_blocks];
        let rest =
            [ring_busy_bytes, ring, bytes, bound, planning, has_stopped, extra, missing, reordered, larger, blocked];
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
        self.carried += other.carried;
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
