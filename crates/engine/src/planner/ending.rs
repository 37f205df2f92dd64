//! The end of an entry: what the planner learns from it, and the effect on the plans.

use std::time::{Duration, Instant};

use super::Planner;
use super::backoff::{Backoff, Pace};
use super::curiosity::Curiosity;
use super::effects::Effects;
#[cfg(feature = "tracing")]
use super::effects::News;
use super::elsewhere::Others;
use super::fate::{Course, Fate, Findings};
use super::footprint::Footprint;
use super::learner::{Learner, RegularPart};
use super::trimming::Look;
#[cfg(feature = "tracing")]
use crate::base::subscriber::is_heard;
use crate::device::Stream;
use crate::home::{Counter, Shared};

/// The recording of entries, and what it is for.
#[derive(Default)]
pub(super) struct Learning {
    pub(super) learner: Learner,
    /// Whether the current entry is recorded.
    pub(super) is_recording: bool,
    /// Whether entries are watched for arrays that are never dropped.
    pub(super) is_watching: bool,
    /// Whether the current entry is recorded or watched.
    pub(super) notes: bool,
    pub(super) curiosity: Curiosity,
    /// Whether the last entry that was looked at went by its plan in all.
    pub(super) was_plain: bool,
    /// The stream that is recorded.
    pub(super) stream: Option<Stream>,
    /// The stream that has most allocations, if that is not the stream of the first one.
    pub(super) prefers: Option<u64>,
    pub(super) others: Others,
    /// Waits before another stream is preferred.
    pub(super) changes: Backoff,
    /// Waits before another order is learned in place of a forgotten one.
    forgetting: Backoff,
    /// The time spent on planning so far.
    spent: Duration,
}

impl Learning {
    /// Begins an entry. Records it if there are no plans, or if a deviation from the plans may recur.
    #[inline(always)]
    pub(super) fn begin(&mut self, has_no_plans: bool) {
        self.learner.begin(has_no_plans || self.curiosity.is_due());
        self.is_recording = self.learner.is_recording;
        self.notes = self.is_recording || self.is_watching;
        if self.is_recording {
            self.others = Others::default();
        }
    }

    /// Records from here on, although the entry is not recorded as a whole.
    pub(super) fn record_part(&mut self) {
        self.learner.record_part();
        self.others = Others::default();
        (self.is_recording, self.notes) = (true, true);
    }

    /// Stops recording this entry.
    pub(super) fn stop(&mut self) {
        (self.learner.is_recording, self.is_recording) = (false, false);
        self.learner.forget_entry();
    }

    /// Starts or stops watching entries, from the next one on.
    pub(super) fn watch(&mut self, is_watching: bool) {
        self.is_watching = is_watching;
        self.notes = self.is_recording || is_watching;
    }

    /// Learns another order, after a while, in place of an order that was forgotten in this entry.
    pub(super) fn begin_anew(&mut self, entry: u64) {
        self.curiosity.renew();
        self.forgetting.tried(entry, Pace::STEEP);
        self.learner.rest(self.forgetting.wait());
    }

    /// Forgets all recordings. The caller drops the stream.
    pub(super) fn forget(&mut self) -> Option<Stream> {
        (self.learner, self.forgetting, self.is_recording) = (Learner::default(), Backoff::default(), false);
        self.notes = self.is_watching;
        self.stream.take()
    }
}

impl Planner {
    /// Ends an entry, and learns from it.
    #[inline(always)]
    pub(super) fn end(&mut self, shared: &Shared) -> Option<Effects> {
        self.publish(shared);
        let (positions, bytes) = self.hot.cursor.places();
        shared.counters.price(positions, bytes);
        self.learning.learner.note_end();
        let course = self.course();
        if self.is_uneventful(shared, course) {
            self.end_as_planned();
            self.look_at_range(true);
        } else {
            self.end_eventfully(shared, course);
        }
        if self.arena.is_some() && shared.lease.is_lost() {
            self.vacate(shared);
        }
        self.tidy_ring(shared);
        self.effects.is_any().then(|| self.take_effects())
    }

    /// Ends an entry that did not go entirely as planned. Inline, so that its findings are not copied: a load that is wider than
    /// the stores before it waits for them.
    #[inline(always)]
    fn end_eventfully(&mut self, shared: &Shared, course: Course) {
        // An entry that launched a graph allocated nothing on purpose. What earlier entries needed more may go.
        if self.entry.is_skipped {
            return self.look_at_range(true);
        }
        self.note_entry(shared, course);
        if self.entry.is_elsewhere {
            self.note_stream(course);
        } else {
            self.strange = 0;
        }
        if self.learning.learner.recorded().is_some() || course.is_telling() {
            self.learn(shared, course);
            self.look_at_range(course.goes_by_plan());
        } else if self.trimming.has_spare() {
            self.look_at_range(false);
        }
    }

    /// Whether the entry went entirely by its plan, and left nothing to learn or to look at. Then
    /// [`end_as_planned`](Planner::end_as_planned) has the same effect as [`learn`](Planner::learn), in a third of the time.
    fn is_uneventful(&self, shared: &Shared, course: Course) -> bool {
        let went_well = course.served > 0 && course.is_plain();
        let is_clean = self.entry.aside + self.entry.displaced + shared.lease.live() == 0;
        went_well && is_clean && !self.is_watched()
    }

    /// Whether an entry is looked at closely, however it went.
    fn is_watched(&self) -> bool {
        self.learning.is_recording || self.footprint.is_due() || self.plans.has_open_layouts()
    }

    /// Counts an entry that went by the active plan.
    #[inline(always)]
    fn end_as_planned(&mut self) {
        self.learning.learner.went_well();
        self.learning.curiosity.ended(self.entry.number, false);
        self.plans.note_followed(self.plans.active(), self.entry.number);
        self.note_first(self.plans.active(), true);
        self.plans.score(true);
        self.footprint.look_in -= 1;
    }

    fn learn(&mut self, shared: &Shared, course: Course) {
        // A look at the clock costs as much as a short entry.
        let has_work = self.learning.learner.recorded().is_some() || self.plans.has_open_layouts();
        let start = has_work.then(Instant::now);
        let fate = self.findings(shared, course).fate();
        self.meet(fate, shared);
        self.lay_out(shared);
        if self.should_pause() {
            self.pause(shared);
        }
        self.learning.spent += start.map_or(Duration::ZERO, |start| start.elapsed());
        self.tell_stop(shared);
        let is_news = fate != Fate::Keep || self.entry.seen.is_any();
        shared.counters.add(Counter::Aside, self.entry.aside);
        if has_work || is_news {
            self.tell(shared);
        }
    }

    /// Learns from the entry, and returns the findings about it.
    fn findings(&mut self, shared: &Shared, course: Course) -> Findings {
        self.learning.was_plain = course.is_plain();
        if self.learning.was_plain {
            self.learning.learner.went_well();
        }
        let recorded = self.learn_order(shared, course);
        let has_deviated = self.entry.is_planned && course.has_deviated();
        self.be_curious(has_deviated);
        let is_of_no_use = self.follow(course, recorded);
        Findings {
            is_of_no_use,
            is_too_much: course.goes_by_plan() && self.takes_too_much(shared),
            is_outgrown: self.plans.is_outgrown(),
            live: shared.lease.live(),
            bytes: self.plans.bytes(),
            displaced: self.entry.displaced,
            course,
        }
    }

    /// Decides whether the next entries are recorded.
    fn be_curious(&mut self, has_deviated: bool) {
        // A text that grows deviates at its end, of which there is nothing to learn.
        let is_telling = !self.loops.is_inside() && !self.plans.grows();
        if has_deviated && is_telling {
            self.learning.curiosity.deviates(self.entry.number);
        }
        self.learning.curiosity.ended(self.entry.number, has_deviated);
        if self.plans.grows() {
            self.learning.curiosity.note_growth();
        }
    }

    /// Learns from the recorded entry: which plan it followed, or a new plan, and which of its sizes grow.
    fn learn_order(&mut self, shared: &Shared, course: Course) -> Option<usize> {
        if self.has_other_stream() {
            return None;
        }
        if self.plans.is_partial() && self.learning.learner.finds_orders() {
            self.forget_plans(shared);
        }
        let plan = if self.follows_part(course) { None } else { self.learn_plan_of_entry(shared) };
        if self.plans.is_partial() {
            self.learning.learner.keep_recorded();
        }
        plan
    }

    fn learn_plan_of_entry(&mut self, shared: &Shared) -> Option<usize> {
        self.entry.first = self.learning.learner.recorded().and_then(|log| log.bytes_at(0)).unwrap_or(0);
        let plan = self.learn_plan(shared)?;
        self.plans.begin_elsewhere = self.learning.others.came_first;
        self.plans.note_growth(plan, &self.learning.learner.growth);
        self.loops.learned = Some(plan);
        Some(plan)
    }

    /// Whether the entry followed a partial plan. The rest of such an entry differs each time, and teaches nothing.
    fn follows_part(&self, course: Course) -> bool {
        self.entry.is_planned && self.plans.is_partial() && course.goes_by_plan()
    }

    fn learn_plan(&mut self, shared: &Shared) -> Option<usize> {
        let part = self.wanted_part();
        let Learning { learner, curiosity, stream, .. } = &mut self.learning;
        let log = learner.recorded()?;
        if let Some(known) = self.plans.that_serves(log) {
            self.plans.note_told(known, log);
            return Some(known);
        }
        if let Some(wider) = self.plans.absorb(log) {
            curiosity.renew();
            return Some(wider);
        }
        let envelope = learner.end(part)?;
        curiosity.renew();
        let stream = stream.clone()?;
        if self.plans.stream().is_none_or(|other| other.id() != stream.id()) {
            // The scope takes turns on two streams, and the plans serve one of them.
            if self.plans.are_in_use(self.entry.number) {
                return None;
            }
            self.forget_plans(shared);
        }
        Some(self.plans.add(envelope, stream, self.entry.number))
    }

    /// The regular part that may have a plan. Where entries are planned in parts, partial plans often lost their arena, which may take 1/20 more than
    /// was in use: a recorded mixture of experts reserved 1.064 instead of 1.021 times its live memory. A plan of one order keeps its arena.
    fn wanted_part(&self) -> RegularPart {
        match self.plans.is_empty() {
            true if self.loops.is_inside() || self.cycles.are_there() => RegularPart::InOrder,
            true => RegularPart::Any,
            false => RegularPart::None,
        }
    }

    /// Notes which plan the entry followed: the one found by the recording, or the active one. Returns whether the active plan is
    /// of no use.
    fn follow(&mut self, course: Course, recorded: Option<usize>) -> bool {
        let goes_by_plan = course.goes_by_plan() && !self.is_left_out(course);
        let active = self.active_plan();
        if let Some(plan) = recorded.or(active.filter(|_| goes_by_plan)) {
            self.plans.note_followed(plan, self.entry.number);
            self.note_first(plan, recorded.is_some() | course.is_served_through);
        }
        // An entry that follows another plan says nothing about the active one.
        let is_of_another = !goes_by_plan && recorded.is_some_and(|plan| Some(plan) != active);
        active.is_some() && !is_of_another && self.plans.score(goes_by_plan)
    }

    /// Notes that an entry with this first allocation, if that is known, followed a plan. An entry that lost its arena does not show it.
    fn note_first(&mut self, plan: usize, shows_it: bool) {
        if shows_it && self.entry.first > 0 {
            self.plans.note_first(plan, self.entry.first);
        }
    }

    /// The plan that serves the entry.
    fn active_plan(&self) -> Option<usize> {
        let is_planned = self.entry.is_planned && !self.plans.is_empty();
        is_planned.then(|| self.plans.active())
    }

    fn meet(&mut self, fate: Fate, shared: &Shared) {
        match fate {
            Fate::Forget => {
                self.vacate(shared);
                self.plans.remove_active(&mut self.hot.cursor);
                self.loops.learned = None;
                self.carry.follow(self.plans.carry(), false);
                // Without plans, nobody takes back what a ring served. So the arrays that are alive in it get memory of their own.
                if self.plans.is_empty() {
                    self.vacate_ring(shared);
                    self.trimming.note_spare(shared.counters.times_taken());
                }
                self.learning.begin_anew(self.entry.number);
            }
            Fate::ForgetAll => {
                self.forget_plans(shared);
                self.loops.learned = None;
                self.trimming.note_spare(shared.counters.times_taken());
                self.learning.begin_anew(self.entry.number);
            }
            Fate::Vacate => self.vacate(shared),
            Fate::Evict if self.evictions.try_now(self.entry.number, Pace::DOUBLING) => {
                self.plans.carry_escaped(self.hot.cursor.live_positions().chain(self.entry.overlapping));
                self.vacate(shared);
            }
            // An array that is alive when its successor is born shows that without an eviction.
            Fate::Keep | Fate::Evict => self.plans.carry_escaped(self.entry.overlapping.into_iter()),
        }
    }

    /// Makes the missing layouts. Gives the arena up if it is too small for them.
    pub(super) fn lay_out(&mut self, shared: &Shared) {
        let ahead = Footprint::ahead(shared);
        if shared.lease.live() == 0 && self.plans.relayout(&mut self.hot.cursor, ahead) {
            self.look_again();
            self.footprint.begin_anew();
            self.carry.follow(self.plans.carry(), self.plans.grows());
            #[cfg(feature = "tracing")]
            self.note_layout();
        }
        if self.arena.as_ref().is_some_and(|arena| arena.bytes < self.plans.bytes()) {
            self.vacate(shared);
        }
    }

    /// Notes the new layout of this entry's plan as news for subscribers.
    #[cfg(feature = "tracing")]
    fn note_layout(&mut self) {
        if is_heard()
            && let Some(draft) = self.plans.last_draft()
        {
            let allocations = self.learning.learner.recorded().map(|log| u64::from(log.len()));
            let (positions, bytes, bound_bytes) = (draft.positions, draft.layout.height, draft.bound);
            self.effects.news.push(News::LaidOut { positions, bytes, bound_bytes, allocations });
        }
    }

    /// Asks for a look at the range: soon after an arena was found, and then ever more rarely.
    #[inline(always)]
    fn look_at_range(&mut self, goes_by_plan: bool) {
        self.trimming.note_entry(goes_by_plan);
        let is_enough = goes_by_plan && self.arena.is_some();
        if (is_enough || self.trimming.has_spare()) && self.trimming.is_due() {
            let last = self.trimming.frees;
            let stream = self.plans.stream().or(self.learning.stream.as_ref());
            self.effects.may_trim = stream.cloned().map(|stream| (stream, last));
        }
    }

    /// Notes that a look begins at a range that reserves so many bytes. Returns whether the latest entries went by the plan.
    pub(crate) fn look(&mut self, shared: &Shared, reserved: u64) -> bool {
        let [arena, ring, beside] =
            [Counter::Arena, Counter::RingBytes, Counter::BesideLately].map(|count| shared.counters.get(count));
        let planned = arena.saturating_add(ring);
        let expected = self.trimming.look(planned.saturating_add(beside), reserved);
        shared.counters.renew_beside(expected.saturating_sub(planned));
        self.trimming.is_steady()
    }

    /// Notes that the range was looked at.
    pub(crate) fn looked(&mut self, shared: &Shared, look: Look) {
        self.trimming.looked(look, shared.counters.times_taken());
    }

    /// Publishes the numbers of the plans and of the entry that ends.
    fn tell(&mut self, shared: &Shared) {
        self.plans.tell(&shared.counters);
        shared.counters.set(Counter::PlanningTime, self.learning.spent.as_nanos() as u64);
        self.entry.seen.count(&shared.counters);
    }
}
