//! Plans that follow their scope to another stream, perhaps of another device.
//!
//! A layout is right on every stream. So if the first allocation of an entry is on another stream than the plans, the plans move: their arena
//! goes back, and the range of the other stream is asked for one. Nothing is learned anew.

use super::Planner;
use super::backoff::Pace;
use super::effects::Begin;
use crate::device::Stream;
use crate::home::Shared;

impl Planner {
    /// Whether this allocation is the first one of its entry, is not on the stream of the plans, and the plans can follow it.
    pub(crate) fn is_elsewhere(&mut self, shared: &Shared, stream: u64) -> bool {
        let is_first = std::mem::take(&mut self.entry.may_move) && self.hot.cursor.is_at_start();
        is_first && self.plans.stream().is_some_and(|planned| planned.id() != stream) && self.may_follow(shared)
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
