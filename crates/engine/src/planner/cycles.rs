//! Cycles of an endless entry, such as the one around `main`. In a cycle, the live bytes rise from low water and fall back to it. Each cycle is
//! planned as an entry is, whatever its order, and however many orders there are. A cycle ends and begins as an entry does.
//!
//! The search for loops finds cycles too (`loops::Search` of `gpucache-plan`). From then on each allocation that no plan serves asks whether the
//! live bytes of the scope are back at low water, and begins the next cycle if they are.

use super::Planner;
use super::effects::{Begin, Effects};
use super::elsewhere::Others;
use super::recurring::RecurringMoves;
use crate::home::{Counter, Shared};
use gpucache_plan::loops::{Cycle, LowWater};

/// The cycles of the present entry.
#[derive(Default)]
pub(super) struct Cycles {
    /// The level at which cycles end, while there are any.
    water: Option<LowWater>,
    /// The first cycle, which has just ended.
    first: Option<Cycle>,
    /// Allocations of the present cycle that no plan served at once.
    since: u32,
    /// The allocations of the longest cycle so far.
    longest: u32,
    /// The allocations of all cycles so far, or more.
    covered: u32,
    /// The allocations of the scope at the end of the last cycle.
    ended_at: u64,
    /// How many short cycles have ended, and how many longer ones.
    short: u32,
    longer: u32,
    /// How often cycles turned out to be none.
    given_up: u32,
    /// How often cycles turned out to be short.
    tries: u32,
    /// Whether the entry may have cycles.
    is_wanted: bool,
    /// Whether the entry may go on for ever.
    pub(super) is_endless: bool,
}

/// A cycle that is so many times as long as any before is none. The number was chosen, not measured.
const LONGEST: u32 = 4;
/// The search finds no cycles with fewer allocations than this (`gpucache-plan`). If many of them end between any two longer ones, they are a loop
/// inside of longer cycles, such as the update of each parameter in a step.
const SHORT: u64 = 32;
/// So many short cycles in all, and so many for each longer one. The first step of a model of 25 layers has about 256, whose plan lays its state
/// side by side. Where 16 in a row sufficed, one of ten small trainings found no room for the plan of its step. The second number was
/// chosen, not measured.
const MOST_SHORT: u32 = 256;
const SHORT_FOR_A_LONGER: u32 = 16;
/// So many longer cycles show that they come again.
const LEAST_LONGER: u32 = 2;
/// Each search for longer cycles takes twice as many short ones as the one before, up to 2^16 times as many, since it goes without plans for a while.
const MOST_TRIES: u32 = 16;
/// If cycles were those of a loop inside of a longer one, only longer ones are searched for so many times their allocations: three long ones
/// show that they are alike.
const AROUND: u32 = 4;
/// The first entry may have cycles, since it may go on for ever. So may one behind an entry whose cycles had more allocations than this. A
/// training step has fewer, and is planned as a whole from the second one on.
const LONG: u32 = 1 << 14;

/// Once cycles turned out to be none, no cycles are searched for so many allocations, then for twice as many, and so on, up to 2^16 times as
/// many. The first number is doubled at once. It was chosen, not measured.
const GIVEN_UP: u32 = 1 << 11;
const MOST_GIVEN_UP: u32 = 16;

/// An array of one number begins no cycle. It may be the loss of the step before, which the program keeps, and it does not tell the order that
/// comes. With 512 bytes, made-up programs without scopes were planned for 0.7 points less.
const SCALAR: u64 = 8;

impl Cycles {
    /// Whether the entry is in a cycle.
    pub(super) fn are_there(&self) -> bool {
        self.water.is_some()
    }

    /// For how many allocations no cycles are searched, since those that were found were none.
    pub(super) fn unwanted_for(&self) -> u32 {
        match (self.is_wanted, self.given_up) {
            (false, _) => u32::MAX,
            (true, 0) => 0,
            (true, times) => GIVEN_UP << times,
        }
    }

    /// Forgets the cycles. The entry may have others.
    pub(super) fn forget(&mut self) {
        let Cycles { tries, given_up, is_wanted, is_endless, .. } = *self;
        *self = Cycles { tries, given_up, is_wanted, is_endless, ..Cycles::default() };
    }

    /// Notes the end of a cycle of so many allocations, if that is known.
    fn end_cycle(&mut self, length: u32) {
        self.longest = self.longest.max(length);
        self.covered = self.covered.saturating_add(self.longest);
        self.since = 0;
    }

    /// Whether the cycles are those of a loop inside of longer ones, now that one ends after so many allocations of the scope.
    fn are_short(&mut self, made: u64) -> bool {
        let length = made.saturating_sub(std::mem::replace(&mut self.ended_at, made));
        if length < SHORT {
            self.short = self.short.saturating_add(1);
            return false;
        }
        self.longer = self.longer.saturating_add(1);
        let most = (MOST_SHORT << self.tries).max(self.longer.saturating_mul(SHORT_FOR_A_LONGER));
        let are_short = self.longer >= LEAST_LONGER && self.short >= most;
        self.tries = (self.tries + u32::from(are_short)).min(MOST_TRIES);
        are_short
    }
}

impl Planner {
    /// Begins an entry of the scope. Returns what the caller has to do first.
    #[inline]
    pub(crate) fn begin_entry(&mut self, shared: &Shared) -> Begin {
        if self.cycles.is_endless || self.entry.number == 0 {
            self.begin_with_cycles(shared);
        }
        self.begin_cycle(shared)
    }

    /// Begins an entry that may be endless, or is behind one that might have been.
    #[cold]
    fn begin_with_cycles(&mut self, shared: &Shared) {
        self.forget_programs(shared);
        let had_cycles = self.cycles.are_there();
        self.cycles.is_endless = self.entry.number == 0 || self.cycles.covered > LONG;
        self.cycles.is_wanted = self.cycles.is_endless;
        self.cycles.forget();
        if had_cycles && !self.cycles.is_wanted {
            self.forget_plans(shared);
            self.learning.learner.wake();
        }
    }

    /// Whether a request has to ask if it begins a program, a cycle, or an iteration of a loop.
    #[inline]
    pub(crate) fn awaits_part(&self) -> bool {
        self.cycles.are_there() || self.loops.awaits_cycle() || self.has_boundary() || self.awaits_program()
    }

    /// Whether the next allocation, of so many bytes on this stream, begins a cycle.
    pub(crate) fn is_cycle_due(&mut self, shared: &Shared, stream: u64, bytes: u64) -> bool {
        match self.cycles.water {
            Some(_) if bytes <= SCALAR => false,
            Some(water) => self.is_cycle_over(shared, water, stream),
            None if self.learning.learner.log.stream() == stream => {
                self.cycles.first = self.loops.cycle(&self.learning.learner.log);
                self.cycles.first.is_some()
            }
            None => false,
        }
    }

    /// Whether an allocation on this stream comes behind the end of the present cycle. Leaves the cycles if they are none.
    fn is_cycle_over(&mut self, shared: &Shared, mut water: LowWater, stream: u64) -> bool {
        let live = live_bytes(shared);
        if water.is_too_high(live) {
            // Cycles that lasted for long were cycles, and an older array was dropped.
            self.leave_cycles(self.cycles.covered <= LONG);
            self.note_cycles_left(live);
            return false;
        }
        self.note_served(shared, &mut water, live);
        let is_over = !self.is_other_than_planned(stream) && water.is_back(live);
        self.cycles.water = Some(water);
        self.cycles.since += 1;
        let longer = self.cycles.longest.saturating_mul(LONGEST);
        let is_inside = match is_over {
            true => self.cycles.are_short(shared.counters.allocations()),
            false => self.cycles.since > longer,
        };
        if is_inside {
            // They were those of a loop inside of a longer one, which has more allocations than all of them.
            let around = self.cycles.covered.saturating_add(self.cycles.since).saturating_mul(AROUND).min(LONG);
            self.leave_cycles(false);
            self.loops.longer = Some((longer, around));
            self.forget_plans(shared);
            self.trimming.forget_needs();
            self.entry.has_departed = true;
        }
        is_over && !is_inside
    }

    /// Notes what the plan served in the cycle, while nobody saw the bytes rise.
    fn note_served(&self, shared: &Shared, water: &mut LowWater, live: u64) {
        if !self.has_served_most() {
            return;
        }
        water.rise_by(self.plans.need());
        // The plan served the cycle to its end. More arrays may outlive it than those of cycles before.
        if self.hot.cursor.is_complete() && shared.lease.live() == 0 {
            water.raise(live);
        }
    }

    /// Whether the plan served at least half of its allocations.
    fn has_served_most(&self) -> bool {
        let served = (self.hot.cursor.served() + self.carry.served()).saturating_sub(self.entry.served_before);
        self.entry.is_planned && 2 * served >= self.hot.cursor.len() as u64
    }

    /// Leaves the cycles, and searches for loops and cycles again. If they `were_none`, cycles are searched only later: these were those of a loop
    /// inside of others, for which one level says nothing.
    #[cold]
    fn leave_cycles(&mut self, were_none: bool) {
        if were_none {
            self.cycles.given_up = (self.cycles.given_up + 1).min(MOST_GIVEN_UP);
        }
        self.cycles.forget();
        self.loops.leave();
        self.search_anew();
    }

    /// Ends a cycle, as an entry ends.
    pub(crate) fn end_cycle(&mut self, shared: &Shared) -> Option<Effects> {
        shared.counters.add(Counter::Iterations, 1);
        self.count_begun();
        if let Some(first) = self.cycles.first.take() {
            return self.end_first_cycle(shared, first);
        }
        self.cycles.end_cycle(self.learning.learner.recorded().map_or(0, |log| log.len()));
        self.end_entry(shared)
    }

    /// Ends what there was before the first cycle, of which the last allocations are a cycle.
    fn end_first_cycle(&mut self, shared: &Shared, Cycle { length, is_again, water }: Cycle) -> Option<Effects> {
        shared.counters.add(Counter::Loops, 1);
        self.cycles.end_cycle(length);
        self.cycles.ended_at = shared.counters.allocations();
        // Plans of loops inside the cycles are of no more use, and say nothing about how long to wait for another one, or about page moves.
        self.forget_plans(shared);
        self.learning.learner.wake();
        self.learning.curiosity.renew();
        self.recurring = RecurringMoves::default();
        let effects = if is_again { self.learn_twice(shared, length) } else { self.abandon(shared) };
        self.cycles.water = Some(water.counted_as(live_bytes(shared)));
        effects
    }

    /// Learns the last two iterations in the log, of this length, as two entries.
    pub(super) fn learn_twice(&mut self, shared: &Shared, length: u32) -> Option<Effects> {
        self.learning.learner.split(length);
        self.learning.others = Others::default();
        self.learning.is_recording = true;
        (self.entry.is_planned, self.entry.seen) = (false, Default::default());
        self.end_part(shared)
    }
}

/// The bytes of the scope that are alive. Arrays that other threads dropped are not, even if this thread has not taken them back yet.
pub(super) fn live_bytes(shared: &Shared) -> u64 {
    shared.in_use().saturating_sub(shared.returns.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_that_were_none_are_searched_ever_later() {
        let mut cycles = Cycles { is_wanted: true, ..Cycles::default() };
        let waits: Vec<u32> = (0..3)
            .map(|times| {
                cycles.given_up = times;
                cycles.forget();
                cycles.unwanted_for()
            })
            .collect();
        assert_eq!(waits, [0, 2 * GIVEN_UP, 4 * GIVEN_UP], "what is forgotten is not how often");
        cycles.given_up = MOST_GIVEN_UP;
        assert!(cycles.unwanted_for() < u32::MAX);
        assert_eq!(Cycles::default().unwanted_for(), u32::MAX, "an entry that ends");
    }
}
