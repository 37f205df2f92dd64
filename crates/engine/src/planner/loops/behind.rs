//! Where an iteration ends: behind the last position of its plan, at the first allocation that may begin another iteration. An iteration
//! may end with allocations that its plan does not know, such as those of an optimizer that makes its state.

use super::searching::ASTRAY;
use super::{Boundary, Planner};
use crate::home::Shared;

/// The allocations that came behind the end of the iteration.
#[derive(Default)]
pub(super) struct Behind {
    /// The bytes of the last ones, the latest last.
    last: [u64; RUN],
    count: u64,
    /// Whether the last one may be one of the first of the next iteration.
    may_be_next: bool,
}

/// After allocations that the plan does not know, so many in a row have to be like the first ones of an iteration. One alone may have the
/// size by chance.
const RUN: usize = 4;
/// At the end of an iteration most of its arrays were dropped: at most this fraction of its bytes, 1/2, is alive.
const KEPT: u64 = 2;
/// A first array of this share of the plan's bytes, 1/128, is enough to know an iteration by. It may find no memory beside the arena, which
/// would then have to go: a training with new weights now and then reserved 1.027 instead of 1.015 times its live memory.
const LARGE: u64 = 128;
/// The same share, 1/16, for an iteration that lost its arena. There the first array of the next one may take the place of its arena. With
/// plans for iterations that did, a sampled graph network had plans for 0.73 of its allocations instead of 0.65. Where sizes vary, smaller
/// arrays look like the first one by chance.
const LARGE_WITHOUT_ARENA: u64 = 16;

impl Behind {
    fn push(&mut self, bytes: u64, may_be_next: bool) {
        self.last.rotate_left(1);
        (self.last[RUN - 1], self.may_be_next) = (bytes, may_be_next);
        self.count = self.count.saturating_add(1);
    }

    /// The last allocations, if there are enough of them.
    pub(super) fn run(&self) -> Option<&[u64]> {
        (self.count as usize >= RUN).then_some(&self.last)
    }
}

impl Planner {
    /// Whether this allocation begins an iteration. Also notes it, and may leave the loop.
    pub(crate) fn is_boundary_due(&mut self, shared: &Shared, stream: u64, bytes: u64) -> bool {
        let is_recorded = self.learning.learner.log.stream() == stream;
        match self.loops.due {
            Some(Boundary::Next) => is_recorded && self.begins_iteration(shared, bytes),
            Some(Boundary::First { .. } | Boundary::Rest { .. }) => is_recorded,
            None => self.loops.may_go_on() && self.begins_planned(shared, stream, bytes),
        }
    }

    /// As [`is_boundary_due`](Planner::is_boundary_due), if the plan of a loop serves the iteration.
    fn begins_planned(&mut self, shared: &Shared, stream: u64, bytes: u64) -> bool {
        if self.is_other_than_planned(stream) {
            self.note_elsewhere();
        }
        let is_served = self.entry.is_planned && self.is_serving(stream);
        is_served && self.hot.cursor.is_complete() && self.begins_again(shared, bytes)
    }

    /// Whether an allocation behind the end of an iteration begins another one. Behind many other allocations, a large one has to say so.
    /// Also notes the allocation, and may leave the loop.
    fn begins_again(&mut self, shared: &Shared, bytes: u64) -> bool {
        if self.loops.may_resume {
            self.is_over(shared) && self.is_large_first(bytes)
        } else {
            self.begins_iteration(shared, bytes)
        }
    }

    /// Whether most arrays of the iteration were dropped.
    fn is_over(&self, shared: &Shared) -> bool {
        shared.lease.live() <= self.plans.need() / KEPT
    }

    /// Whether the last allocation may be one of the next iteration, so that it takes no place of this one.
    pub(in crate::planner) fn may_be_next(&self) -> bool {
        self.loops.behind.may_be_next
    }

    /// Whether an allocation behind the end of an iteration begins the next one, or continues one that has just begun. Also notes the
    /// allocation, and leaves the loop after many others.
    fn begins_iteration(&mut self, shared: &Shared, bytes: u64) -> bool {
        if self.follows_plan(bytes) || self.is_large_like_first(bytes) {
            return true;
        }
        let has_begun = self.has_run_begun(shared, bytes);
        if has_begun {
            self.loops.start = RUN as u32 - 1;
        } else if self.loops.behind.count > u64::from(ASTRAY) && self.has_boundary() {
            self.leave_behind(shared, bytes);
        }
        has_begun
    }

    /// Whether the last allocations are the first ones of an iteration. Also notes this one.
    fn has_run_begun(&mut self, shared: &Shared, bytes: u64) -> bool {
        let may_be_next = (0..RUN).any(|position| self.plans.have_at(position, bytes));
        self.loops.behind.push(bytes, may_be_next);
        self.is_over(shared) && self.loops.behind.run().is_some_and(|run| self.plans.begin_with_all(run))
    }

    /// Leaves the loop, since no iteration begins.
    fn leave_behind(&mut self, shared: &Shared, bytes: u64) {
        if !self.departs(shared, bytes, false) {
            self.loops.leave();
            self.search_on();
        }
    }

    /// Whether the plan begins with as many bytes, and they are so many that this is hardly by chance.
    fn is_large_first(&self, bytes: u64) -> bool {
        bytes >= self.plans.need() / LARGE && self.plans.always_begins_with(bytes)
    }

    /// Whether an iteration without an arena is over, and another one may begin with as many bytes. They are so many that this is hardly by
    /// chance.
    fn is_large_like_first(&self, bytes: u64) -> bool {
        self.has_boundary() && bytes >= self.plans.need() / LARGE_WITHOUT_ARENA && self.plans.have_at(0, bytes)
    }

    /// Whether the iteration went by its plan up to this allocation, which may be the first one of the next iteration.
    fn follows_plan(&self, bytes: u64) -> bool {
        let seen = self.entry.seen;
        let is_in_order = self.loops.behind.count + seen.extra + seen.missing + seen.reordered == 0;
        // Another size is that of another batch, unless the iteration was only counted.
        let may_differ = !self.has_boundary();
        is_in_order && self.plans.begin_with(bytes, may_differ)
    }
}
