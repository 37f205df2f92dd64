//! The search for a loop while an entry is recorded: for a new one, or for the place in a known one where the program continues.

use super::entries::made_and_served;
use super::{Boundary, Planner, Stage};
use crate::home::Shared;
use crate::planner::elsewhere::ELSEWHERE;
use gpucache_plan::loops::Found;

/// After so many allocations in a row that the plan does not know, the program has left the loop. An iteration that does something more
/// has fewer.
pub(super) const ASTRAY: u32 = 32;
/// Each departure for another stream takes twice as many allocations there as the one before, up to 2^16 times as many.
const MOST_DEPARTURES: u32 = 16;
/// An entry that goes on behind its plan, or has another order, is searched for a loop behind so many unplanned allocations, and so many times the
/// positions of the longest plan. Before that, the entry may be a step of another order. The numbers were chosen, not measured.
const LATE: u32 = 1 << 12;
const LATE_POSITIONS: u64 = 4;
/// A loop around a known one is searched for so many of its periods.
const PERIODS_WITHOUT_SHORTER: u32 = 4;
/// After so many of them the plan's next position is not trusted any more.
const OFF: u32 = 8;

impl Planner {
    /// Searches from here on. Forgets what the entry recorded so far.
    pub(crate) fn search_anew(&mut self) {
        // Arrays whose allocation was recorded before must not be taken for those that are recorded from now on.
        self.entry.number += 1;
        self.entry.has_stream = false;
        self.learning.record_part();
        self.take_slow_paths();
        // A loop that was found is in the record that is forgotten.
        self.loops.due = self.loops.due.filter(|due| !matches!(due, Boundary::First { .. }));
        self.loops.is_astray |= self.loops.ended == 0;
        self.loops.is_used = true;
        self.begin_search();
    }

    /// As [`search_anew`](Planner::search_anew), but goes on with a recording of the iteration from its beginning: the iteration may be one of
    /// another order, such as an evaluation.
    pub(super) fn search_on(&mut self) {
        if self.learning.learner.is_recording { self.begin_search() } else { self.search_anew() }
    }

    /// As [`search_anew`](Planner::search_anew), without the loops that are known.
    pub(super) fn search_afresh(&mut self) {
        self.search_anew();
        self.loops.stage = Stage::WantedAfresh;
    }

    /// Searches in an entry that goes on for far longer than its plan, now that so many of its allocations were not planned.
    #[inline]
    pub(in crate::planner) fn search_late(&mut self, unplanned: u32) {
        if unplanned >= LATE && unplanned.is_power_of_two() {
            self.search_at(unplanned);
        }
    }

    #[cold]
    fn search_at(&mut self, unplanned: u32) {
        let was_whole = self.loops.whole.is_on();
        if self.may_search_late(unplanned) {
            match self.learning.learner.recorded() {
                Some(_) if !was_whole => self.begin_search(),
                // A loop has to last for as long as all that the record has.
                _ => self.search_anew(),
            }
        }
    }

    fn may_search_late(&mut self, unplanned: u32) -> bool {
        let is_late = u64::from(unplanned) > LATE_POSITIONS * self.plans.positions();
        // A scope with another policy neither records nor has plans.
        let may_record = self.is_at_work() && !self.learning.learner.has_stopped();
        is_late && may_record && !self.cycles.are_there() && self.loops.are_idle(unplanned)
    }

    /// Whether the entry, which is in no loop, searches for one.
    pub(in crate::planner) fn is_searching(&self) -> bool {
        self.loops.is_used && self.loops.length.is_none() && self.loops.stage != Stage::Off
    }

    pub(super) fn begin_search(&mut self) {
        self.loops.stage = Stage::Wanted;
    }

    /// Notes an allocation that the plan did not serve.
    pub(in crate::planner) fn note_stray(&mut self, shared: &Shared, bytes: u64) {
        let (next, most, may_resume) = (self.hot.cursor.next(), self.most_stray(), self.may_resume());
        let loops = &mut self.loops;
        loops.stray = if loops.stray.0 == next { (next, loops.stray.1.saturating_add(1)) } else { (next, 1) };
        if loops.stray.1 >= most {
            if self.departs(shared, bytes, false) {
                return;
            }
            let was_misled = self.was_misled(shared);
            let loops = &mut self.loops;
            loops.may_resume |= may_resume;
            (loops.length, loops.left) = (None, 0);
            if was_misled {
                self.search_afresh();
            } else if loops.stage == Stage::Off {
                self.search_anew();
            }
        }
    }

    /// Leaves the loop for one around it, if the program leaves it again and again in the same way. Returns whether it does.
    #[cold]
    pub(in crate::planner) fn departs(&mut self, shared: &Shared, bytes: u64, costs_arena: bool) -> bool {
        if self.loops.length.is_none() {
            return false;
        }
        self.publish(shared);
        if !self.loops.outer.departs(self.loops.ended, (bytes, costs_arena), made_and_served(shared)) {
            return false;
        }
        self.loops.leave();
        self.vacate(shared);
        self.entry.has_departed = true;
        self.search_afresh();
        true
    }

    /// Whether the plan may go on behind other allocations. If these come in each iteration, a search finds the longer loop. Where sizes grow,
    /// the first one says little about the others.
    fn may_resume(&self) -> bool {
        let is_first_time = self.loops.length.is_some() && !self.loops.has_resumed;
        is_first_time && self.hot.cursor.is_complete() && !self.plans.grows()
    }

    /// Notes an allocation on another stream than that of the loop.
    #[cold]
    pub(super) fn note_elsewhere(&mut self) {
        let served = self.hot.cursor.served();
        let (before, count) = self.loops.elsewhere;
        self.loops.elsewhere = (served, if before == served { count.saturating_add(1) } else { 1 });
        if self.loops.elsewhere.1 >= ELSEWHERE << self.loops.departures {
            // The loop may go on later, as behind an evaluation on another device. So it is left ever more rarely.
            self.loops.departures = (self.loops.departures + 1).min(MOST_DEPARTURES);
            self.loops.elsewhere.1 = 0;
            self.loops.leave();
            self.search_anew();
        }
    }

    /// How many allocations in a row that the plan does not know lead to a search.
    fn most_stray(&self) -> u32 {
        // A record of the whole entry may show a longer order.
        let is_known = self.loops.stage != Stage::Off || self.learning.learner.recorded().is_some();
        match self.loops.length {
            Some(_) => ASTRAY,
            // An entry that goes on behind its plan for as long again may repeat it.
            None if self.hot.cursor.is_complete() && !is_known => ASTRAY.max(self.hot.cursor.next() as u32),
            None => u32::MAX,
        }
    }

    /// Searches on from an allocation that was recorded.
    #[inline]
    pub(in crate::planner) fn search(&mut self) {
        if self.loops.left > 0 {
            self.count_down();
        }
        match self.loops.stage {
            Stage::Off => return,
            Stage::Wanted | Stage::WantedAfresh => self.start(),
            Stage::On => {}
        }
        if let Some(found) = self.loops.search.allocated(&self.learning.learner.log) {
            self.note_found(found);
        }
    }

    /// The log is full. Searches from here on, if it searches.
    #[cold]
    pub(in crate::planner) fn search_beyond(&mut self) {
        if self.loops.left > 0 {
            self.count_down();
        }
        if self.loops.stage != Stage::Off {
            self.noted.is_too_long = true;
            self.search_anew();
        }
    }

    /// Counts an allocation of an iteration that goes without a plan.
    #[cold]
    fn count_down(&mut self) {
        self.loops.left -= 1;
        self.loops.due = (self.loops.left == 0).then_some(Boundary::Next);
    }

    #[cold]
    fn start(&mut self) {
        self.loops.is_used = true;
        // Plans of another stream do not serve a loop that went on here.
        let is_here = !self.is_other_than_planned(self.learning.learner.log.stream());
        let known = self.plans.known_loops().filter(|_| is_here && self.loops.stage == Stage::Wanted);
        self.loops.search.begin(known, self.learning.learner.log.len().saturating_sub(1));
        self.loops.search.skip_cycles(self.cycles.unwanted_for());
        if let Some(least) = self.loops.outer.least {
            self.loops.search.skip_shorter(least, least.saturating_mul(PERIODS_WITHOUT_SHORTER));
        } else if let Some((least, allocations)) = self.loops.longer.take() {
            self.loops.search.skip_shorter(least, allocations);
        }
        self.loops.stage = Stage::On;
    }

    #[cold]
    fn note_found(&mut self, found: Found) {
        let due = match found {
            // An iteration of a known loop that goes without a plan.
            Found::Loop { .. } if self.loops.length.is_some() => None,
            Found::Loop { length } => Some(Boundary::First { length }),
            Found::Known { place, position } => self.rest_of(place as usize, position),
        };
        self.loops.due = due.or(self.loops.due);
    }

    /// Searches on from a drop that was recorded.
    #[inline]
    pub(in crate::planner) fn search_drop(&mut self, number: u32) {
        if self.loops.stage == Stage::On {
            self.loops.search.dropped(self.learning.learner.log.len().saturating_sub(number));
        }
    }

    /// The rest of an iteration of a known loop, if the plan does not serve it already.
    fn rest_of(&mut self, plan: usize, position: u32) -> Option<Boundary> {
        let length_of = self.plans.loop_length(plan)?;
        if self.loops.ended == 0 && position == self.learning.learner.log.len() {
            self.loops.is_astray = false;
        }
        if !self.plans.suits(plan, position, &self.learning.learner.log) {
            return None;
        }
        let start = if length_of == position { 0 } else { position };
        let is_same = plan == self.plans.active() || self.plans.is_variant();
        match self.loops.length.filter(|_| is_same) {
            Some(length) if !self.is_next_iteration(position, length) => {
                self.realign(position, length);
                None
            }
            _ => Some(Boundary::Rest { plan, start }),
        }
    }

    /// Whether the iteration's plan serves it.
    fn is_served(&self) -> bool {
        self.entry.is_planned && !self.entry.is_dissolved
    }

    /// Whether the iteration is so far behind `position` that this is the next one. It may have fewer or more allocations than the plan.
    fn is_next_iteration(&self, position: u32, length: u32) -> bool {
        let here = match self.is_served() {
            true if self.loops.stray.1 < OFF => return false,
            true => self.hot.cursor.next() as u32,
            false => length.saturating_sub(self.loops.left),
        };
        position + length / 2 < here
    }

    /// Continues at another position of the same iteration.
    fn realign(&mut self, position: u32, length: u32) {
        match self.is_served() {
            true if self.loops.stray.1 < OFF => {}
            true => self.hot.cursor.skip_to(position as usize),
            // Nothing is left to count, so only another find can tell where an iteration begins.
            false if position >= length => self.loops.length = None,
            false => self.loops.left = length - position,
        }
    }
}
