//! The stream of the plans. Plans serve the stream that most allocations of a recorded entry are on, and follow their scope to another
//! stream, perhaps of another device.
//!
//! A layout is right on every stream. So if the first allocation of an entry is on another stream than the plans, and such entries were there
//! before, the plans move: their arena goes back, and the range of the other stream is asked for one. Nothing is learned anew.

use super::backoff::Pace;
use super::effects::Begin;
use super::fate::Course;
use super::{NO_STREAM, Planner};
use crate::device::Stream;
use crate::home::Shared;

/// After so many allocations on another stream, an entry without a plan has gone on there, or has left its loop. A step has fewer on a second
/// stream or device, such as batches on the host. With 256, a loop of 600 arrays and 300 of the host was planned to 8%, now to 66%.
pub(super) const ELSEWHERE: u32 = 512;
/// After so many allocations on the plans' stream, a search on another stream is over.
const BACK: u32 = 32;
/// A stream is preferred if it leads by this share, 1/4. Otherwise entries with as many allocations on two streams would change it.
const CLEAR: u32 = 4;
/// After so many entries in a row without an allocation that the plans could serve, and then after twice as many, some are recorded. One
/// such entry alone may come in between.
const STRANGE: u32 = 2;
/// The streams among which plans move: a thread that drives all GPUs of a host has eight.
pub(super) const PROVEN: usize = 8;

/// The allocations of a recorded entry that are not on the recorded stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Others {
    count: u32,
    /// The stream that more than half of them are on, if there is one.
    stream: u64,
    /// By how many allocations this stream leads.
    lead: u32,
    /// Whether the entry began with one of them.
    pub(super) came_first: bool,
}

impl Others {
    /// Counts an allocation on this stream (the majority vote of Boyer and Moore).
    fn count(&mut self, stream: u64, is_first: bool) {
        self.count = self.count.saturating_add(1);
        self.came_first |= is_first;
        if self.lead == 0 {
            self.stream = stream;
        }
        self.lead = if self.stream == stream { self.lead.saturating_add(1) } else { self.lead - 1 };
    }
}

impl Planner {
    /// Whether an allocation on this stream is recorded. It is not if entries have most of their allocations on another stream. Also notes an
    /// allocation that is not recorded, and may record the rest of the entry on its stream.
    pub(super) fn is_recorded(&mut self, stream: u64) -> bool {
        let is_recorded = self.may_record(stream);
        if !is_recorded {
            self.learning.others.count(stream, !self.entry.has_stream);
            self.search_elsewhere();
        }
        is_recorded
    }

    /// As [`is_recorded`](Planner::is_recorded), without a note.
    pub(super) fn may_record(&self, stream: u64) -> bool {
        match self.entry.has_stream {
            true => self.learning.learner.log.stream() == stream,
            false => self.learning.prefers.is_none_or(|preferred| preferred == stream),
        }
    }

    /// Records from here on, on another stream, if the first entry goes on there. An entry around a whole program may begin with arrays of the
    /// host. Later entries know which stream they prefer.
    fn search_elsewhere(&mut self) {
        let Others { stream, lead, .. } = self.learning.others;
        let is_undecided = self.plans.is_empty() && self.learning.prefers.is_none();
        if is_undecided && lead > self.learning.learner.log.len().max(ELSEWHERE) {
            self.learning.prefers = Some(stream);
            self.search_anew();
        } else if lead >= BACK && self.is_search_left(stream) {
            self.search_anew();
        }
    }

    /// Whether the search is on another stream than the plans, and the entry is back on theirs.
    fn is_search_left(&self, stream: u64) -> bool {
        self.is_searching() && self.plans.stream().is_some_and(|planned| planned.id() == stream)
    }

    /// Whether the entry is recorded as a whole, and has allocations on other streams.
    fn has_others(&self) -> bool {
        self.learning.is_recording && self.learning.others.count > 0 && !self.loops.is_inside()
    }

    /// Whether the recorded entry has more allocations on another stream. The next ones are then recorded there, but ever more rarely if that
    /// changes from entry to entry.
    pub(super) fn has_other_stream(&mut self) -> bool {
        let Others { stream, lead, .. } = self.learning.others;
        if !self.has_others() {
            return false;
        }
        let (own, number) = (self.learning.learner.log.len(), self.entry.number);
        let is_other = lead > own + own / CLEAR && self.learning.changes.is_over(number);
        if is_other {
            self.learning.prefers = Some(stream);
            self.learning.changes.tried(number, Pace::STEEP);
        } else if !self.entry.has_stream {
            self.learning.prefers = None;
        }
        is_other
    }

    /// Whether this allocation is the first one of its entry, is like that of the plans on another stream, and the plans can follow it. Also
    /// notes the allocation.
    pub(crate) fn is_elsewhere(&mut self, shared: &Shared, stream: u64, bytes: u64) -> bool {
        self.entry.supplies = self.entry.supplies.saturating_add(1);
        self.search_late(self.entry.supplies);
        let is_first = std::mem::take(&mut self.entry.may_move) && !self.has_begun();
        if !is_first || !self.is_other_than_planned(stream) {
            return false;
        }
        self.entry.is_elsewhere = true;
        let is_like = self.plans.may_follow_first(bytes);
        self.entry.begins_on = is_like.then_some(stream);
        is_like && self.proven.contains(&stream) && self.may_follow(shared)
    }

    /// Whether the plans serve another stream than this one.
    pub(super) fn is_other_than_planned(&self, stream: u64) -> bool {
        self.plans.stream().is_some_and(|planned| planned.id() != stream)
    }

    /// Whether the plan served an allocation of the entry. Without an arena, its cursor is where the last entry left it.
    fn has_begun(&self) -> bool {
        self.entry.is_planned && !self.hot.cursor.is_at_start()
    }

    /// Whether the first allocation of the entry is still to come, and may be on another stream than the plans.
    #[inline]
    pub(crate) fn may_move(&self) -> bool {
        self.entry.may_move
    }

    /// Whether the plans may leave their stream. Graphs need the arena where it is, and a loop goes on at its position. After a move in vain,
    /// the plans go back at once.
    fn may_follow(&self, shared: &Shared) -> bool {
        let is_bound = self.is_captured || self.loops.is_inside();
        shared.lease.live() == 0 && !is_bound && (self.may_return || self.moves.is_over(self.entry.number))
    }

    /// Moves the plans to this stream. Returns the arena that they need there.
    #[cold]
    pub(crate) fn move_to(&mut self, shared: &Shared, stream: &Stream) -> Begin {
        // Arrays that are alive in a ring keep their memory, and a new ring has to begin. That is too much for streams that take turns.
        if self.has_ring() {
            self.moves.tried(self.entry.number, Pace::STEEP);
        }
        self.vacate(shared);
        self.vacate_ring(shared);
        // They name the stream.
        self.effects.records.push(std::mem::take(&mut self.hot.records));
        self.effects.records.push(std::mem::take(&mut self.carry.records));
        let before = self.plans.move_to(stream.clone());
        before.iter().for_each(|before| self.prove(before.id()));
        self.effects.streams.extend(before);
        self.may_return = false;
        self.refused = None;
        (self.entry.is_planned, self.entry.is_dissolved, self.entry.has_moved) = (false, false, true);
        let (bytes, may_grow) = (self.plans.bytes(), self.may_range_grow(shared, None));
        Begin::Install { bytes, stream: stream.clone(), refused: None, may_grow, insists: false }
    }

    /// Notes how an entry went that began on another stream than the plans. After a move in vain, the plans stay for a while on the stream to
    /// which they go back.
    pub(super) fn note_stream(&mut self, course: Course) {
        if self.entry.has_moved && !course.goes_by_plan() {
            self.moves.tried(self.entry.number, Pace::STEEP);
            self.may_return = true;
            let here = self.plans.stream().map_or(NO_STREAM, Stream::id);
            self.proven.iter_mut().filter(|proven| **proven == here).for_each(|proven| *proven = NO_STREAM);
        }
        // A short entry, such as one array of the host, is no reason to move an arena there.
        let is_long = self.entry.supplies as usize >= self.hot.cursor.len() / 2;
        if let Some(stream) = self.entry.begins_on.filter(|_| is_long && !self.entry.has_moved) {
            self.prove(stream);
        }
        self.note_strange(course);
    }

    /// Whether the entry was on another stream, and so left out the whole plan.
    pub(super) fn is_left_out(&self, course: Course) -> bool {
        self.entry.is_elsewhere && course.served == 0
    }

    /// If some entries in a row began on another stream, and had nothing that the plans could serve, the next ones are recorded.
    fn note_strange(&mut self, course: Course) {
        self.strange = if !course.is_telling() { self.strange.saturating_add(1) } else { 0 };
        if self.strange.is_power_of_two() && self.strange >= STRANGE {
            self.learning.curiosity.renew();
        }
    }

    /// Notes that entries like the plans are on this stream too, in place of the stream that was proven first.
    fn prove(&mut self, stream: u64) {
        if !self.proven.contains(&stream) {
            self.proven.rotate_left(1);
            self.proven[PROVEN - 1] = stream;
        }
    }
}
