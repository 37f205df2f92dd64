//! The stream of the plans. Plans serve the stream that most allocations of a recorded entry are on, and follow their scope to another
//! stream, perhaps of another device.
//!
//! A layout is right on every stream. So if the first allocation of an entry is on another stream than the plans, the plans move: their arena
//! goes back, and the range of the other stream is asked for one. Nothing is learned anew.

use super::Planner;
use super::backoff::Pace;
use super::effects::Begin;
use crate::device::Stream;
use crate::home::Shared;

/// After so many allocations on another stream, an entry without a plan may have gone on there. A step has fewer on a second stream or device,
/// such as batches on the host.
pub(super) const ELSEWHERE: u32 = 256;

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
    /// Whether an allocation on this stream is recorded. It is not if entries have most of their allocations on another stream.
    pub(super) fn is_recorded(&mut self, stream: u64) -> bool {
        let has_stream = self.entry.has_stream;
        let is_recorded = match has_stream {
            true => self.learning.learner.log.stream() == stream,
            false => self.learning.prefers.is_none_or(|preferred| preferred == stream),
        };
        if !is_recorded {
            self.learning.others.count(stream, !has_stream);
            self.search_elsewhere();
        }
        is_recorded
    }

    /// Records from here on, on another stream, if an entry without a plan has far more allocations there. An entry around a whole program
    /// may begin with arrays of the host.
    fn search_elsewhere(&mut self) {
        let Others { stream, lead, .. } = self.learning.others;
        if self.plans.is_empty() && lead > self.learning.learner.log.len().max(ELSEWHERE) {
            self.learning.prefers = Some(stream);
            self.search_anew();
        }
    }

    /// Whether the recorded entry has more allocations on another stream. The next ones are then recorded there.
    pub(super) fn has_other_stream(&mut self) -> bool {
        let Others { count, stream, lead, .. } = self.learning.others;
        let is_other = lead > self.learning.learner.log.len();
        if is_other {
            self.learning.prefers = Some(stream);
            self.learning.learner.count_in_vain();
        } else if count > 0 && !self.entry.has_stream {
            self.learning.prefers = None;
        }
        is_other
    }

    /// Whether this allocation is the first one of its entry, is not on the stream of the plans, and the plans can follow it.
    pub(crate) fn is_elsewhere(&mut self, shared: &Shared, stream: u64) -> bool {
        let is_first = std::mem::take(&mut self.entry.may_move) && self.hot.cursor.is_at_start();
        let is_other = is_first && self.plans.stream().is_some_and(|planned| planned.id() != stream);
        is_other && self.plans.may_follow_first() && self.may_follow(shared)
    }

    /// Whether the first allocation of the entry is still to come, and may be on another stream than the plans.
    #[inline]
    pub(crate) fn may_move(&self) -> bool {
        self.entry.may_move
    }

    /// Whether the plans may leave their stream. Graphs need their arena, and a loop its place.
    fn may_follow(&self, shared: &Shared) -> bool {
        let is_bound = self.is_captured || self.loops.is_inside();
        shared.lease.live() == 0 && !is_bound && self.moves.is_over(self.entry.number)
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
        self.effects.records.push(self.carry.take_records());
        self.effects.streams.extend(self.plans.move_to(stream.clone()));
        self.refused = None;
        (self.entry.is_planned, self.entry.is_dissolved, self.entry.has_moved) = (false, false, true);
        let (bytes, may_grow) = (self.plans.bytes(), self.may_range_grow(shared, None));
        Begin::Install { bytes, stream: stream.clone(), refused: None, may_grow, insists: false }
    }

    /// Notes at the end of an entry whether it went by its plan. After a move in vain, the plans stay for a while.
    pub(super) fn note_move(&mut self, goes_by_plan: bool) {
        if self.entry.has_moved && !goes_by_plan {
            self.moves.tried(self.entry.number, Pace::STEEP);
        }
    }
}
