//! What is noted of entries that no plan serves as it has it, for the diagnosis of the scope. Nothing of it is on the way of an
//! allocation that goes by plan.

use super::Planner;
use super::fate::Course;
use super::watch::SUSPECT;
use crate::home::{Counter, Deviations, Fact, Facts, Sample, Shared};
use crate::record::Request;
use gpucache_plan::entries::{Deviation, Log};

/// What is noted of the entry that is under way.
#[derive(Default)]
pub(super) struct Noted {
    /// The first allocation that was other than the plan expected, and the first whose place was taken.
    odd: Option<Sample>,
    blocked: Option<Sample>,
    /// The first array that outlives its entry and has no place.
    aside: Option<Sample>,
    /// The first one that was other than in the recorded entry before.
    unlike: Option<Sample>,
    /// Allocations that were expected otherwise and served beside the plan.
    pub(super) beside: u64,
    /// Allocations on another stream than the recorded one, their bytes, and one of them.
    elsewhere: (u64, u64),
    example: Option<Sample>,
}

impl Planner {
    /// Counts entries, for what is noted.
    pub(crate) fn clock(&self) -> u64 {
        self.entry.number
    }

    /// How often the allocations of the latest recorded entry, taken as one round, come in it: 1 if they do not repeat.
    pub(crate) fn repeats(&self) -> u64 {
        let log = self.learning.learner.latest();
        let under_way = self.learning.learner.recorded();
        under_way.or(log).map_or(1, Log::rounds)
    }

    /// An allocation came where the plan expected this position. Counts how it deviates; not at all if it was planned to go beside.
    pub(super) fn note_deviation(&mut self, deviation: Option<Deviation>, request: &Request<'_>, position: usize) {
        match deviation {
            Some(deviation) => self.note_odd(request, position, matches!(deviation, Deviation::Blocked { .. })),
            None => _ = self.noted.aside.get_or_insert_with(|| Sample::of(request, position as u64 + 1, None)),
        }
        self.count(deviation, request.bytes as u64);
    }

    /// The same of one that deviates, or whose place `is_blocked`.
    pub(super) fn note_odd(&mut self, request: &Request<'_>, position: usize, is_blocked: bool) {
        let noted = if is_blocked { &mut self.noted.blocked } else { &mut self.noted.odd };
        let expected = self.plans.envelope().and_then(|envelope| envelope.sizes_at(position));
        noted.get_or_insert_with(|| Sample::of(request, position as u64 + 1, expected));
    }

    /// Compares an allocation of this number in a recorded entry with that of the recorded entry before; `None` for one of another
    /// stream.
    pub(super) fn note_recorded(&mut self, request: &Request<'_>, number: Option<u32>) {
        let bytes = request.bytes as u64;
        let Some(number) = number else {
            if self.learning.learner.log.is_too_long() {
                return;
            }
            let (events, sum) = self.noted.elsewhere;
            self.noted.elsewhere = (events + 1, sum.saturating_add(bytes));
            self.noted.example.get_or_insert_with(|| Sample::of(request, 0, None));
            return;
        };
        let before = self.learning.learner.latest().and_then(|log| log.bytes_at(number));
        if self.plans.is_empty()
            && let Some(before) = before.filter(|&before| before != bytes)
        {
            let sample = || Sample::of(request, u64::from(number) + 1, Some((before, before)));
            self.noted.unlike.get_or_insert_with(sample);
        }
    }

    /// Whether the entry that ends says anything of how it was served.
    fn is_noteworthy(&mut self, course: Course) -> bool {
        course.is_telling() || self.entry.aside > 0 || self.has_record() || self.was_left_out()
    }

    /// Whether it was recorded, and allocated something.
    fn has_record(&mut self) -> bool {
        self.learning.is_recording && self.learning.learner.log.len() > 0
    }

    /// Whether it had to do without a plan: there are some and no arena, or learning pauses.
    fn was_left_out(&self) -> bool {
        !self.entry.is_planned && (!self.plans.is_empty() || self.learning.learner.has_stopped())
    }

    /// Notes of an entry that ends what was not as planned.
    #[inline]
    pub(super) fn note_entry(&mut self, shared: &Shared, course: Course) {
        let unplanned = shared.counters.unplanned();
        let more = unplanned.wrapping_sub(std::mem::replace(&mut self.unplanned, unplanned));
        if course.is_served_through && course.served == 0 && self.hot.cursor.is_at_start() {
            shared.facts().note(Fact::Unserved, self.clock(), more, 0);
        } else if self.is_noteworthy(course) {
            self.note_told(shared, course);
        }
    }

    #[cold]
    fn note_told(&mut self, shared: &Shared, course: Course) {
        let noted = std::mem::take(&mut self.noted);
        let (entry, facts) = (self.clock(), &mut *shared.facts());
        let is_served = self.entry.is_planned && !self.entry.is_dissolved;
        facts.note(Fact::Unplanned, entry, u64::from(!is_served), 0);
        facts.note(Fact::Aside, entry, self.entry.aside, 0);
        facts.show(Fact::Aside, entry, noted.aside);
        facts.note(Fact::Blocked, entry, course.seen.blocked + self.entry.displaced, 0);
        facts.show(Fact::Blocked, entry, noted.blocked);
        #[cfg(feature = "tracing")]
        self.effects.note_deviation(course.seen, noted.odd.or(noted.blocked));
        if let Some(odd) = noted.odd {
            let Deviations { extra, missing, reordered, larger, .. } = course.seen;
            // Where sizes differ alone, what was not expected stands in the place of what is missing.
            let is_of_sizes = self.is_as_long(course, noted.beside) && extra + larger >= reordered;
            let fact = if is_of_sizes { Fact::OtherSize } else { Fact::OtherOrder };
            facts.note(fact, entry, extra + missing + reordered + larger, 0);
            facts.show(fact, entry, Some(odd));
        }
        if self.learning.is_recording {
            self.note_log(facts, noted.elsewhere, noted.example);
            let number = shared.counters.get(Counter::Entries);
            self.note_unlike(facts, noted.unlike, number);
        }
    }

    /// Whether the entry had as many allocations as its plan, of which so many went beside that. What became of an entry whose arena was
    /// given up on the way is not known unless it is recorded: then it is taken to be as the one before.
    fn is_as_long(&mut self, course: Course, beside: u64) -> bool {
        let planned = self.hot.cursor.next() as u64 + self.hot.cursor.left();
        let came = course.served + beside + self.entry.aside;
        match (self.learning.learner.recorded(), self.entry.is_dissolved) {
            (Some(log), _) => self.was_as_long = u64::from(log.len()) == planned,
            (None, false) => self.was_as_long = came == planned,
            (None, true) => {}
        }
        self.was_as_long
    }

    /// Notes what was recorded, and the allocations on other streams.
    fn note_log(&mut self, facts: &mut Facts, (events, bytes): (u64, u64), example: Option<Sample>) {
        let entry = self.clock();
        let log = &self.learning.learner.log;
        facts.note(Fact::TooLong, entry, u64::from(log.is_too_long()), 0);
        facts.note(Fact::Recorded, entry, u64::from(log.len()), log.bytes());
        facts.note(Fact::OtherStream, entry, events, bytes);
        facts.show(Fact::OtherStream, entry, example);
    }

    /// Notes how a recorded entry differs from the one before, while no plan is known.
    fn note_unlike(&mut self, facts: &mut Facts, unlike: Option<Sample>, number: u64) {
        let entry = self.clock();
        let learner = &self.learning.learner;
        let Some(log) = learner.recorded().filter(|_| self.plans.is_empty()) else { return };
        facts.note(Fact::TooLarge, entry, u64::from(!log.is_plannable()), log.bytes());
        let Some(before) = learner.latest().filter(|before| before.len() > 0) else { return };
        let fact = match unlike {
            _ if log.len() != before.len() => Fact::UnlikeOrder,
            Some(_) if log.bytes() == before.bytes() => Fact::UnlikeOrder,
            Some(_) => Fact::UnlikeSize,
            None if log.outlived_as(before) => Fact::UnlikeDrops,
            None => return self.note_escapes(facts, number),
        };
        facts.note(fact, entry, 1, log.bytes());
        facts.show(fact, entry, unlike);
    }

    /// Notes the arrays that outlive a recorded entry, where others outlived the entry before. Has the next entries watched until the
    /// lines of such arrays are known. `number` counts this entry as the watch does.
    fn note_escapes(&mut self, facts: &mut Facts, number: u64) {
        let entry = self.clock();
        let (arrays, bytes) = self.learning.learner.log.outliving();
        facts.note(Fact::UnlikeEscapes, entry, arrays.max(1), bytes);
        let escaped = self.watch.escaped(number);
        let is_known = !escaped.is_empty() || !facts.samples(Fact::UnlikeEscapes).is_empty();
        escaped.into_iter().for_each(|sample| facts.show(Fact::UnlikeEscapes, entry, Some(sample)));
        self.learning.watch(!is_known || facts.alive.growth(SUSPECT).is_some());
    }
}
