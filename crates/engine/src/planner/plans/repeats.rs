//! The plans of loops: which of them there are, and whether they suit what an entry allocates.

use super::Plans;
use gpucache_plan::entries::{Cursor, Envelope, Log};
use gpucache_plan::loops::Known;

/// How many of the last allocations have to suit a plan before it continues with them.
const SUITED: u32 = 8;

impl Plans {
    /// Notes that the plan is that of a loop.
    pub(in crate::planner) fn set_loop(&mut self, plan: usize, length: u32, known: Known) {
        if let Some(plan) = self.plans.get_mut(plan) {
            plan.repeats = Some((length, known));
        }
    }

    /// The windows of all loops, with the places of their plans.
    pub(in crate::planner) fn known_loops(&self) -> impl Iterator<Item = (u32, &Known)> {
        let plans = self.plans.iter().enumerate();
        plans.filter_map(|(place, plan)| Some((place as u32, &plan.repeats.as_ref()?.1)))
    }

    /// The allocations of an iteration, if this plan is that of a loop.
    pub(in crate::planner) fn loop_length(&self, plan: usize) -> Option<u32> {
        self.plans.get(plan)?.repeats.as_ref().map(|&(length, _)| length)
    }

    /// Whether the active plan is that of a loop.
    pub(in crate::planner) fn begins_with_loop(&self) -> bool {
        self.loop_length(self.active).is_some()
    }

    /// Whether the active plan is that of another order of iterations of a loop that has a plan.
    pub(in crate::planner) fn is_variant(&self) -> bool {
        self.plans.get(self.active).and_then(|plan| plan.repeats.as_ref()).is_some_and(|(_, known)| known.is_empty())
    }

    /// Whether a plan is that of a loop of this length.
    pub(in crate::planner) fn has_loop_of(&self, length: u32) -> bool {
        (0..self.plans.len()).any(|plan| self.loop_length(plan) == Some(length))
    }

    /// Whether an iteration of a loop may begin with an allocation of this many bytes, or of another size in the same order.
    pub(in crate::planner) fn begin_with(&self, bytes: u64, may_differ: bool) -> bool {
        self.have_at(0, bytes) || may_differ && self.loops().any(|iteration| iteration.is_like(0, bytes))
    }

    /// Whether the iterations of the active plan all began with an allocation of this many bytes.
    pub(in crate::planner) fn always_begins_with(&self, bytes: u64) -> bool {
        let active = self.plans.get(self.active).filter(|plan| plan.repeats.is_some());
        active.is_some_and(|plan| plan.seen.sizes_at(0) == Some((bytes, bytes)))
    }

    /// Whether an iteration of a loop may have an array of this many bytes at a position.
    pub(in crate::planner) fn have_at(&self, position: usize, bytes: u64) -> bool {
        self.loops().any(|iteration| iteration.may_be(position, bytes))
    }

    /// Whether an iteration of a loop may begin with these allocations, in known sizes or in others.
    pub(in crate::planner) fn begin_with_all(&self, sizes: &[u64]) -> bool {
        self.loops().any(|iteration| iteration.may_begin(sizes))
    }

    fn loops(&self) -> impl Iterator<Item = &Envelope> {
        self.plans.iter().filter(|plan| plan.repeats.is_some()).map(|plan| &plan.seen)
    }

    /// Whether the last allocations of a log have sizes that the plan knows at the positions up to this one, most of them.
    pub(in crate::planner) fn suits(&self, plan: usize, position: u32, log: &Log) -> bool {
        let Some(plan) = self.plans.get(plan) else { return false };
        let looks = position.min(log.len()).min(SUITED);
        let is_known = |back: &u32| {
            let bytes = log.bytes_at(log.len() - back);
            plan.seen
                .sizes_at((position - back) as usize)
                .zip(bytes)
                .is_some_and(|((least, most), bytes)| least <= bytes && bytes <= most)
        };
        2 * (1..=looks).filter(is_known).count() >= looks as usize
    }

    /// Makes this plan active. Nothing may be alive in the plans unless it is active already.
    pub(in crate::planner) fn choose(&mut self, plan: usize, cursor: &mut Cursor) {
        if plan != self.active {
            let _ = self.activate(plan, cursor);
        }
    }
}
