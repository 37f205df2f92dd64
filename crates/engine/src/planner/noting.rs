//! Notes for the diagnosis of a scope, about entries that did not go as planned. A planned allocation notes nothing.

use super::Planner;
use super::fate::Course;
use super::watch::SUSPECT;
use crate::home::{Deviations, Fact, Facts, Sample, Shared};
use crate::record::Request;
use gpucache_plan::entries::{Deviation, Envelope, Log};

/// The notes about the current entry.
#[derive(Default)]
pub(super) struct Noted {
    /// The first allocation that the plan did not expect.
    odd: Option<Sample>,
    /// The first one whose place was taken.
    blocked: Option<Sample>,
    /// The first array that outlives its entry and has no place.
    aside: Option<Sample>,
    /// The first allocation that differs from the recorded entry before.
    unlike: Option<Sample>,
    /// Allocations that differed from the expected ones and were served beside the plan.
    pub(super) beside: u64,
    /// Allocations on another stream than the recorded one, and their bytes.
    elsewhere: (u64, u64),
    /// One of these allocations.
    example: Option<Sample>,
    /// Whether the entry was longer than the log, and the search for a loop in it began anew.
    pub(super) is_too_long: bool,
}

impl Planner {
    /// The clock for notes. It counts entries.
    pub(crate) fn clock(&self) -> u64 {
        self.entry.number
    }

    /// How many times the allocations of the latest recorded entry repeat within that entry; 1 if they do not repeat.
    pub(crate) fn repeats(&self) -> u64 {
        let log = self.learning.learner.latest();
        let under_way = self.learning.learner.recorded();
        under_way.or(log).map_or(1, Log::rounds)
    }

    /// Notes an allocation that came where the plan expected this position. Counts its deviation, unless the plan wanted it beside.
    pub(super) fn note_deviation(&mut self, deviation: Option<Deviation>, request: &Request<'_>, position: usize) {
        match deviation {
            Some(deviation) => self.note_odd(request, position, matches!(deviation, Deviation::Blocked { .. })),
            None => _ = self.noted.aside.get_or_insert_with(|| Sample::of(request, position as u64 + 1, None)),
        }
        self.count(deviation, request.bytes as u64);
    }

    /// Notes a sample of an allocation that deviates, or whose place `is_blocked`.
    pub(super) fn note_odd(&mut self, request: &Request<'_>, position: usize, is_blocked: bool) {
        let noted = if is_blocked { &mut self.noted.blocked } else { &mut self.noted.odd };
        let expected = self.plans.envelope().and_then(|envelope| envelope.sizes_at(position));
        noted.get_or_insert_with(|| Sample::of(request, position as u64 + 1, expected));
    }

    /// Compares an allocation of a recorded entry with the one of the same number in the recorded entry before. `number` is `None`
    /// for an allocation of another stream.
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

    /// Whether the entry that ends shows anything about how it was served.
    fn is_noteworthy(&mut self, course: Course) -> bool {
        course.is_telling() || self.entry.aside > 0 || self.has_record() || self.was_left_out()
    }

    /// Whether the entry was recorded and allocated something.
    fn has_record(&mut self) -> bool {
        self.learning.is_recording && self.learning.learner.log.len() > 0
    }

    /// Whether the entry had to go without a plan: there are plans but no arena, or recording pauses.
    fn was_left_out(&self) -> bool {
        !self.entry.is_planned && (!self.plans.is_empty() || self.learning.learner.has_stopped())
    }

    /// Notes what did not go as planned in an entry that ends.
    #[inline(always)]
    pub(super) fn note_entry(&mut self, shared: &Shared, course: Course) {
        let unplanned = shared.counters.unplanned();
        let more = unplanned.wrapping_sub(std::mem::replace(&mut self.unplanned, unplanned));
        let is_unserved = course.is_served_through && course.served == 0 && self.hot.cursor.is_at_start();
        if is_unserved && self.entry.is_elsewhere {
            shared.facts().note(Fact::Unserved, self.clock(), more, 0);
        } else if self.is_noteworthy(course) {
            self.note_told(shared, course);
        }
    }

    #[cold]
    fn note_told(&mut self, shared: &Shared, course: Course) {
        let mut noted = std::mem::take(&mut self.noted);
        noted.is_too_long |= self.learning.learner.log.is_too_long();
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
            let fact = if self.differs_in_sizes(course, noted.beside) { Fact::OtherSize } else { Fact::OtherOrder };
            facts.note(fact, entry, extra + missing + reordered + larger, 0);
            facts.show(fact, entry, Some(odd));
        }
        if self.learning.is_recording {
            facts.note(Fact::TooLong, entry, u64::from(noted.is_too_long), 0);
            self.note_log(facts, noted.elsewhere, noted.example);
            self.note_unlike(facts, noted.unlike);
        }
    }

    /// Whether only the sizes of the entry differ: each unexpected allocation then takes the place of a missing one. But where sizes vary
    /// widely, it may also look like one at another place. The entry then has other bytes in all than the one before.
    fn differs_in_sizes(&mut self, course: Course, beside: u64) -> bool {
        let Deviations { extra, reordered, larger, .. } = course.seen;
        let has_other_bytes = self.has_other_bytes();
        self.is_as_long(course, beside) && (extra + larger >= reordered || has_other_bytes)
    }

    /// Whether the entry had as many allocations as its plan. `beside` of them were unexpected and went beside the plan. If the
    /// arena was given up during an entry that is not recorded, the length is unknown. It then counts as that of the entry before.
    /// Also notes the answer.
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

    /// Whether most sizes of the plan vary, and the last recorded entry had other bytes in all than the one recorded before. Also notes the
    /// bytes of the entry.
    fn has_other_bytes(&mut self) -> bool {
        if let Some(log) = self.learning.learner.recorded() {
            let (now, before) = (log.bytes(), self.recorded_bytes.0);
            self.recorded_bytes = (now, before);
        }
        let (now, before) = self.recorded_bytes;
        now != before && self.plans.envelope().is_some_and(Envelope::varies)
    }

    /// Notes the recording, and the allocations on other streams.
    fn note_log(&mut self, facts: &mut Facts, (events, bytes): (u64, u64), example: Option<Sample>) {
        let entry = self.clock();
        let log = &self.learning.learner.log;
        facts.note(Fact::Recorded, entry, u64::from(log.len()), log.bytes());
        facts.note(Fact::OtherStream, entry, events, bytes);
        facts.show(Fact::OtherStream, entry, example);
    }

    /// Notes how a recorded entry differs from the one before, while there is no plan.
    fn note_unlike(&mut self, facts: &mut Facts, unlike: Option<Sample>) {
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
            None => return self.note_escapes(facts),
        };
        facts.note(fact, entry, 1, log.bytes());
        facts.show(fact, entry, unlike);
    }

    /// Notes the arrays that outlive a recorded entry, where others outlived the entry before. Has the next entries watched until the
    /// lines of such arrays are known.
    fn note_escapes(&mut self, facts: &mut Facts) {
        let entry = self.clock();
        let (arrays, bytes) = self.learning.learner.log.outliving();
        facts.note(Fact::UnlikeEscapes, entry, arrays.max(1), bytes);
        let escaped = self.watch.escaped();
        let is_known = !escaped.is_empty() || !facts.samples(Fact::UnlikeEscapes).is_empty();
        escaped.into_iter().for_each(|sample| facts.show(Fact::UnlikeEscapes, entry, Some(sample)));
        self.learning.watch(!is_known || facts.growth(SUSPECT).is_some());
    }
}
