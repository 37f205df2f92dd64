//! The programs of an endless entry: the models of a sweep one behind the other, or one model again and again. A program has ended if it had a loop,
//! and all arrays of the scope were dropped. What comes then has nothing to do with the arrays before. So the next program is planned as another
//! entry is: as a whole if it came before and is not long, or by its loops.
//!
//! In other scopes nothing is alive between any two steps, since the weights are elsewhere. There the steps are the loop, and no programs.

use crate::home::{Counter, Shared};
use crate::planner::Planner;
use crate::planner::cycles::live_bytes;
use crate::planner::effects::Effects;

/// The programs of the present entry.
#[derive(Default)]
pub(super) struct Programs {
    /// Whether one has ended.
    are_there: bool,
    /// The allocations of the scope when the present one began.
    began_at: u64,
    /// Whether the entry has none, since nothing was alive in the midst of one.
    are_none: bool,
}

/// A program has at least so many allocations. A shorter one is a cycle, or an iteration of a loop: the solves of a made-up multigrid solver reserved
/// 1.06 instead of 1.02 times their live memory as programs of 512. With 1024, a recorded sampled graph network is a program only together with
/// its next pass.
const LEAST: u64 = 768;
/// Behind fewer allocations than this, which nothing of outlives, a program has not yet begun. The number was chosen, not measured.
const PRELUDE: u64 = 32;

impl Programs {
    /// Whether the program has ended, now that nothing is alive after so many allocations of the scope. `had_loop`: whether it had a loop.
    fn end_at(&mut self, made: u64, had_loop: bool) -> bool {
        let length = made.saturating_sub(self.began_at);
        if length < PRELUDE {
            self.began_at = made;
            return false;
        }
        let has_ended = length >= LEAST && (had_loop || self.are_there);
        self.are_none |= !has_ended;
        has_ended
    }
}

impl Planner {
    /// Whether the program may end soon.
    #[inline]
    pub(in crate::planner) fn awaits_program(&self) -> bool {
        let Programs { are_there, are_none, .. } = self.loops.programs;
        self.cycles.is_endless && !are_none && (are_there || self.loops.ended > 0)
    }

    /// Whether the next allocation, which no plan serves at once, begins another program.
    #[inline]
    pub(crate) fn begins_program(&mut self, shared: &Shared) -> bool {
        self.cycles.is_endless && !self.loops.programs.are_none && self.has_program_ended(shared)
    }

    #[cold]
    fn has_program_ended(&mut self, shared: &Shared) -> bool {
        if live_bytes(shared) > 0 || self.cycles.are_there() || self.is_captured {
            return false;
        }
        self.publish(shared);
        self.loops.programs.end_at(shared.counters.allocations(), self.loops.ended > 0)
    }

    /// Begins an entry that may be endless, and has had no program yet.
    pub(in crate::planner) fn forget_programs(&mut self, shared: &Shared) {
        self.loops.programs = Programs { began_at: shared.counters.allocations(), ..Programs::default() };
    }

    /// Notes that so many bytes are alive behind cycles whose low water was higher. If there are none, the cycles were those of a program.
    pub(in crate::planner) fn note_cycles_left(&mut self, live: u64) {
        self.loops.programs.are_there |= live == 0;
    }

    /// Ends a program, as an entry ends.
    pub(crate) fn end_program(&mut self, shared: &Shared) -> Option<Effects> {
        shared.counters.add(Counter::Iterations, 1);
        self.count_begun();
        let began_at = shared.counters.allocations();
        self.loops.programs = Programs { are_there: true, began_at, are_none: false };
        self.end_after_loops(shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_ends_where_nothing_of_it_is_alive() {
        let mut programs = Programs::default();
        assert!(!programs.end_at(PRELUDE - 1, false) && !programs.are_none, "it has not yet begun");
        assert!(programs.end_at(PRELUDE - 1 + LEAST, true), "it had a loop");
        let mut next = Programs { are_there: true, began_at: 1000, are_none: false };
        assert!(next.end_at(1000 + LEAST, false), "it comes behind another one");
        assert!(!next.end_at(1000 + LEAST - 1, true) && next.are_none, "it is too short");
        let mut steps = Programs::default();
        assert!(!steps.end_at(LEAST, false) && steps.are_none, "it had no loop");
    }
}
