//! Loops inside an entry. Each iteration of a loop is planned like an entry of its own.
//!
//! While an entry is recorded and has no plan, a [`Search`] hears of its allocations and drops. Once it finds a loop, the last two
//! iterations are learned as two entries would be. Then a *boundary* is due before the next allocation: the cache ends one iteration, and
//! begins the next one ([`end_iteration`](Planner::end_iteration), then [`begin`](Planner::begin)). From then on, a boundary is due at the end of
//! the plan. Nothing is searched meanwhile, so the loop costs as much as entries do.
//!
//! If many allocations in a row do not fit, the program has left the loop, and the search begins anew. It knows the loops that have plans,
//! and at which positions the program may be in them.

mod behind;
mod entries;
mod misleading;
mod outer;
mod programs;
mod searching;
mod whole;

use super::Planner;
use crate::home::{Counter, Shared};
use gpucache_plan::entries::Log;
use gpucache_plan::loops::{Cycle, Known, Search};

use super::effects::Effects;
use behind::Behind;
use misleading::Misleading;
use outer::Outer;
use programs::Programs;
use whole::Whole;

/// The loop that the entry is in, and the search for one.
#[derive(Default)]
pub(super) struct Loops {
    search: Search,
    stage: Stage,
    /// Whether the entry searched, or was in a loop. If neither this nor `are_known` holds, an entry takes no further step.
    pub(super) is_used: bool,
    /// Whether a plan is that of a loop.
    are_known: bool,
    /// The allocations of an iteration, if the entry is in a loop.
    length: Option<u32>,
    due: Option<Boundary>,
    /// Whether the loop was left behind the end of an iteration. Its plan may go on, at the beginning of another iteration.
    may_resume: bool,
    /// Whether the last iteration ended so.
    has_resumed: bool,
    /// The position at which the iteration that begins goes on.
    start: u32,
    behind: Behind,
    programs: Programs,
    /// Allocations of the iteration that are left, if it goes without a plan.
    left: u32,
    /// How many iterations of the entry have ended.
    ended: u64,
    /// The position that is expected, and how many allocations in a row came that the plan does not know.
    stray: (usize, u32),
    /// How much the plan had served, and how many allocations on other streams came since then.
    elsewhere: (u64, u32),
    /// How often a loop was left for another stream.
    departures: u32,
    /// The plan that the next iteration follows, if that is known.
    pub(super) next: Option<usize>,
    /// The plan that the last recorded entry taught. `None` once another plan may have its number.
    pub(super) learned: Option<usize>,
    /// Whether the entry began with something else than the loop.
    is_astray: bool,
    /// Whether the entry is recorded as a whole.
    is_recorded_whole: bool,
    /// Iterations in a row for which the plan found no arena.
    unplanned: u32,
    /// After how many of them, but at least [`UNPLANNED`], another plan is searched for.
    most_unplanned: u32,
    outer: Outer,
    misleading: Misleading,
    whole: Whole,
    /// Shorter periods and cycles are not searched for the first allocations of the next search.
    pub(super) longer: Option<(u32, u32)>,
}

/// The stage of the search for a loop.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Off,
    /// It begins with the next recorded allocation.
    Wanted,
    /// As `Wanted`, for new loops alone.
    WantedAfresh,
    On,
}

/// The part of the entry that the next allocation of the recorded stream begins.
#[derive(Clone, Copy, Debug)]
enum Boundary {
    /// The first planned iteration of a loop that was found, whose iterations have this length.
    First { length: u32 },
    /// The rest of an iteration of a known loop, from this position on.
    Rest { plan: usize, start: u32 },
    /// The next iteration of the same loop.
    Next,
}

/// Most steps have more allocations than this, and few layers have as many.
const STEP: u32 = 512;
/// After so many iterations without an arena, another plan is searched for; then after twice as many, and so on.
const UNPLANNED: u32 = 2;

impl Loops {
    /// Whether an iteration of a loop ends or has ended in this entry.
    pub(super) fn is_inside(&self) -> bool {
        self.length.is_some() || self.ended > 0
    }

    /// Whether the entry is in no loop, searches for none, and is not recorded as a whole, or has too many allocations for that.
    fn are_idle(&mut self, allocations: u32) -> bool {
        self.length.is_none() && self.stage == Stage::Off && !self.whole.goes_on(u64::from(allocations))
    }

    /// Whether the loop keeps its plan, although another iteration goes without it. Also notes that iteration.
    fn bears_with_plan(&mut self) -> bool {
        self.unplanned += 1;
        let most = self.most_unplanned.max(UNPLANNED);
        let bears = self.unplanned <= most;
        if !bears {
            (self.unplanned, self.most_unplanned) = (0, most.saturating_mul(2));
        }
        bears
    }

    /// Whether the next allocation may begin another iteration of a loop.
    #[inline]
    pub(super) fn may_go_on(&self) -> bool {
        self.length.is_some() | self.may_resume
    }

    /// Whether the search awaits the end of a cycle, and no loop was found.
    #[inline]
    pub(super) fn awaits_cycle(&self) -> bool {
        self.stage == Stage::On && self.length.is_none() && self.search.awaits_cycle()
    }

    /// The cycle that ends before the next allocation, if the search found one.
    pub(super) fn cycle(&mut self, log: &Log) -> Option<Cycle> {
        if self.awaits_cycle() { self.search.cycle(log) } else { None }
    }

    /// Ends the loop that the entry is in.
    pub(super) fn leave(&mut self) {
        (self.length, self.due, self.stage, self.left, self.may_resume) = (None, None, Stage::Off, 0, false);
    }

    /// Ends the loop. For as long as so many iterations take, the next search looks for longer ones alone, such as the step whose layers the
    /// loop is. Their plans need fewer arenas.
    pub(super) fn look_for_longer(&mut self, iterations: u64) {
        let least = self.length.unwrap_or(0).saturating_mul(2).max(STEP);
        let allocations = iterations.saturating_mul(u64::from(least));
        self.longer = Some((least, u32::try_from(allocations).unwrap_or(u32::MAX)));
        self.leave();
    }
}

impl Planner {
    /// Whether the last recorded allocation showed that the next one begins an iteration.
    #[inline]
    pub(crate) fn has_boundary(&self) -> bool {
        self.loops.due.is_some()
    }

    /// Notes that an entry or an iteration begins. Begins to search if no plan serves it from the start. Always inlined: a call takes 1% of an
    /// entry.
    #[inline(always)]
    pub(crate) fn begun(&mut self, shared: &Shared) {
        // An array that goes beside the plan in each entry is no reason to search.
        self.loops.stray.1 = 0;
        if self.loops.is_used | self.loops.are_known {
            return self.begun_with_loops(shared);
        }
        let is_wanted = self.learning.is_recording & !self.entry.is_planned;
        self.loops.stage = if is_wanted { Stage::Wanted } else { Stage::Off };
    }

    #[cold]
    fn begun_with_loops(&mut self, shared: &Shared) {
        self.loops.stage = Stage::Off;
        (self.loops.left, self.loops.may_resume) = (0, false);
        let (start, behind) = (std::mem::take(&mut self.loops.start), std::mem::take(&mut self.loops.behind));
        let first = behind.run().filter(|_| start > 0).map(|run| run[0]);
        match self.loops.length.filter(|_| !self.plans.is_empty()) {
            _ if self.entry.is_planned => {
                // A plan of smaller sizes cannot become larger for an allocation that was made.
                if let Some(first) = first.filter(|&bytes| self.plans.are_smaller_than(bytes)) {
                    self.choose_plan(shared, first, true);
                }
                self.begun_planned(start);
            }
            Some(length) if self.loops.bears_with_plan() => {
                self.loops.left = length.saturating_sub(start);
                self.search_on();
            }
            // The plan may be of other sizes than the loop has now.
            Some(_) => {
                self.loops.length = None;
                self.search_afresh();
            }
            None => self.begun_without_loop(),
        }
    }

    /// An iteration begins at a position of its plan.
    fn begun_planned(&mut self, start: u32) {
        self.loops.unplanned = 0;
        self.loops.length = self.plans.loop_length(self.plans.active()).or(self.loops.length);
        self.loops.is_used |= self.loops.length.is_some();
        if start > 0 {
            self.hot.cursor.skip_to(start as usize);
            self.learning.learner.is_recording &= self.learning.learner.log.len() == start;
        }
        if self.learning.is_recording && self.loops.ended > 0 {
            self.begin_search();
        }
    }

    /// An entry begins for which no loop is known, or the entry goes on behind one that has no plan any more.
    fn begun_without_loop(&mut self) {
        self.loops.length = None;
        if self.loops.whole.is_on() {
            return;
        }
        if self.plans.begins_with_loop() || !self.learning.is_recording && self.loops.ended > 0 {
            self.search_anew();
        } else if self.learning.is_recording {
            self.begin_search();
        }
    }

    /// Notes that the iteration lost its arena, with so many allocations to come.
    pub(super) fn go_unplanned(&mut self, left: u32) {
        match self.loops.length {
            Some(_) if self.loops.left == 0 => {
                self.loops.left = left;
                self.loops.due = self.loops.due.or((left == 0).then_some(Boundary::Next));
            }
            // No end of an iteration is known that could be counted to.
            None if self.loops.is_inside() && !self.cycles.are_there() => {}
            _ => return,
        }
        if !self.learning.is_recording {
            self.search_anew();
        }
    }

    /// Ends an iteration. The next one begins as an entry does.
    pub(crate) fn end_iteration(&mut self, shared: &Shared) -> Option<Effects> {
        self.loops.ended += 1;
        shared.counters.add(Counter::Iterations, 1);
        self.count_begun();
        match self.loops.due.take() {
            Some(Boundary::First { length }) => self.learn_loop(shared, length),
            Some(Boundary::Rest { plan, start }) => self.end_before_rest(shared, plan, start),
            // What came behind the end of the iteration has nothing to do with the loop.
            _ if self.loops.may_resume => {
                self.loops.has_resumed = true;
                self.abandon(shared)
            }
            Some(Boundary::Next) | None => {
                self.loops.has_resumed = false;
                self.end_before(shared, self.loops.start)
            }
        }
    }

    /// Ends an iteration. The last `count` allocations were recorded with it, and are those of the next one.
    fn end_before(&mut self, shared: &Shared, count: u32) -> Option<Effects> {
        self.loops.learned = None;
        self.learning.learner.end_before(count);
        let effects = self.end_part(shared);
        // Another order of iterations, which may take turns with the one that was found.
        if let Some(plan) = self.loops.learned.filter(|&plan| self.plans.loop_length(plan).is_none()) {
            self.plans.set_loop(plan, self.learning.learner.log.len(), Known::default());
        }
        effects
    }

    /// Ends an iteration before the rest of another one. The first allocations of that one were recorded with this one.
    fn end_before_rest(&mut self, shared: &Shared, plan: usize, start: u32) -> Option<Effects> {
        (self.loops.start, self.loops.next, self.loops.length) = (start, Some(plan), self.plans.loop_length(plan));
        self.loops.behind = Behind::default();
        // The entry may have begun with something else, or the iteration goes on after some allocations that were not expected.
        let allocations = self.learning.learner.log.len().saturating_sub(start);
        if self.loops.ended == 1 || self.loops.length.is_none_or(|length| allocations < length / 2) {
            return self.abandon(shared);
        }
        let effects = self.end_before(shared, start);
        if self.plans.loop_length(plan) != self.loops.length {
            (self.loops.start, self.loops.next, self.loops.length) = (0, None, None);
        }
        effects
    }

    /// Learns the last two iterations of a loop, as entries.
    fn learn_loop(&mut self, shared: &Shared, length: u32) -> Option<Effects> {
        let known = self.loops.search.known(&self.learning.learner.log, length);
        // The entry began with something else, unless its allocations are whole iterations.
        self.loops.is_astray |= self.loops.ended == 1 && !self.learning.learner.log.len().is_multiple_of(length);
        // The same code with other sizes, as of another batch: its old plan would take the memory of both. The plan of a loop inside this one
        // is of no more use either.
        if self.loops.outer.least.take().is_some() | self.plans.has_loop_of(length) {
            self.forget_plans(shared);
        }
        self.recurring.begin_loop(length);
        self.loops.learned = None;
        let effects = self.learn_twice(shared, length);
        self.loops.next = self.loops.learned;
        self.loops.length = self.loops.learned.map(|plan| {
            self.plans.set_loop(plan, length, known);
            self.loops.are_known = true;
            shared.counters.add(Counter::Loops, 1);
            length
        });
        effects
    }

    /// As [`end`](Planner::end), for an iteration or an entry that ends in a loop.
    #[cold]
    pub(super) fn end_part(&mut self, shared: &Shared) -> Option<Effects> {
        self.end(shared)
    }

    /// Ends an entry or iteration that teaches nothing about its plan.
    pub(super) fn abandon(&mut self, shared: &Shared) -> Option<Effects> {
        self.publish(shared);
        let (positions, bytes) = self.hot.cursor.places();
        shared.counters.price(positions, bytes);
        self.learning.learner.forget_entry();
        self.noted = Default::default();
        if self.arena.is_some() && shared.lease.is_lost() {
            self.vacate(shared);
        }
        self.tidy_ring(shared);
        self.effects.is_any().then(|| self.take_effects())
    }
}
