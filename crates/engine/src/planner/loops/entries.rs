//! How an entry begins and ends if loops were found or searched in the entry before, or in it.

use super::{Behind, Loops};
use crate::home::{Counter, Shared};
use crate::planner::effects::{Begin, Effects};
use crate::planner::{EntryState, Planner};

impl Loops {
    /// Begins an entry, which is in no loop yet. Returns whether the entry before began with something else than its loop.
    fn begin_entry(&mut self) -> bool {
        (self.length, self.due, self.start, self.left, self.ended, self.next) = (None, None, 0, 0, 0, None);
        (self.unplanned, self.most_unplanned, self.is_used) = (0, 0, false);
        (self.may_resume, self.has_resumed, self.longer) = (false, false, None);
        (self.is_recorded_whole, self.behind) = (false, Behind::default());
        self.outer.begin();
        std::mem::take(&mut self.is_astray)
    }

    /// Whether the entry that begins is recorded as a whole, without the plans that there are and without a search for loops in it.
    fn begin_whole(&mut self, has_plans: bool) -> bool {
        let is_afresh = self.whole.begin(has_plans);
        self.is_used |= self.whole.is_on();
        is_afresh
    }
}

impl Planner {
    /// As [`begin_cycle`](Planner::begin_cycle), after an entry with loops.
    #[cold]
    pub(in crate::planner) fn begin_after_loops(&mut self, shared: &Shared) -> Begin {
        let was_astray = self.loops.begin_entry();
        let has_plan = !was_astray || !self.plans.begins_with_loop();
        self.begin_whole_or(has_plan, shared)
    }

    /// Begins a program of an endless entry. Unless programs are planned as a whole, it begins with something else than a loop.
    #[cold]
    pub(crate) fn begin_program(&mut self, shared: &Shared) -> Begin {
        self.loops.begin_entry();
        let is_whole = self.loops.whole.is_on();
        // A program that went by its plan as a whole comes again, and a recorded operation takes three times as long.
        let spell = (is_whole && self.learning.was_plain).then(|| std::mem::take(&mut self.learning.curiosity.left));
        let begin = self.begin_whole_or(is_whole, shared);
        spell.into_iter().for_each(|left| self.learning.curiosity.left = left);
        begin
    }

    /// Begins an entry that is recorded as a whole, has a plan, or begins with something else than its loop.
    fn begin_whole_or(&mut self, has_plan: bool, shared: &Shared) -> Begin {
        if self.loops.begin_whole(!self.plans.is_empty()) {
            self.learning.learner.has_turns |= self.loops.whole.takes_turns();
            self.forget_plans(shared);
            // Plans of loops that were forgotten lately say nothing about the entry.
            self.learning.learner.wake();
        } else if has_plan {
            return self.begin_iteration(shared);
        }
        self.loops.is_recorded_whole = self.loops.whole.is_on();
        self.begin_astray(shared)
    }

    /// Begins an entry that is recorded as a whole, or begins with something else than its loop. The range gets the memory of the plans.
    fn begin_astray(&mut self, shared: &Shared) -> Begin {
        self.entry = EntryState { number: self.entry.number + 1, ..EntryState::default() };
        self.learning.begin(true);
        self.vacate(shared);
        self.vacate_ring(shared);
        Begin::Clear
    }

    /// Ends an entry.
    #[inline]
    pub(crate) fn end_entry(&mut self, shared: &Shared) -> Option<Effects> {
        let loops = &self.loops;
        let has_more = (loops.ended > 0) | loops.is_astray | loops.is_recorded_whole;
        if has_more { self.end_after_loops(shared) } else { self.end(shared) }
    }

    /// As [`end_entry`](Planner::end_entry), if iterations of a loop have ended, or if the entry only searched for the loop, or was recorded as a
    /// whole. If entries search in vain, the scope has perhaps left the loop behind.
    #[cold]
    pub(super) fn end_after_loops(&mut self, shared: &Shared) -> Option<Effects> {
        self.publish(shared);
        self.learning.learner.trusts_one = self.loops.whole.has_come(shared.counters.allocations());
        let teaches = self.loops.ended == 0 || self.hot.cursor.is_complete();
        let effects = if teaches { self.end_part(shared) } else { self.abandon(shared) };
        self.learning.learner.trusts_one = false;
        let (made, served) = made_and_served(shared);
        // The loops of the first entries may be the layers of a step that is planned as a whole from then on. The page moves for them do not
        // count against its plan.
        let length = self.loops.whole.count_entry(made, served);
        self.recurring.begin_loop(length as u32);
        effects
    }
}

/// The allocations of the scope so far, and those of them that plans served.
pub(super) fn made_and_served(shared: &Shared) -> (u64, u64) {
    let served = shared.counters.get(Counter::PlanServed) + shared.counters.get(Counter::Carried);
    (shared.counters.allocations(), served)
}
