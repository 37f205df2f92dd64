//! The ring of a scope's plans: memory for carried arrays, which are still alive when their successors are born.
//!
//! The ring has blocks of its own. Unlike the arena, it is never empty between two entries, when plans are laid out and arenas come
//! and go. The ring begins small. It grows by the missing bytes, while the earlier arrays elsewhere are dropped. While nothing in
//! the ring is alive, other threads may take it away, like an arena ([`lease`](crate::pressure::lease)).

mod comparison;
mod size;
mod worth;

use super::backoff::Backoff;
use super::{Planner, Resolved};
use crate::device::Stream;
use crate::home::Shared;
use crate::record::{ArenaId, DropPath, Record, RecordStack, Request};
use comparison::Comparison;
use gpucache_plan::entries::{Envelope, Ring};
use size::ENTRIES_BEFORE_RING;
pub(crate) use size::RingGrowth;

/// The ring of a scope's plans.
#[derive(Default)]
pub(super) struct Carry {
    /// The drop path that [`take_back`](Planner::take_back) compares with. It matches nothing while there is no ring.
    pub(super) path: DropPath,
    /// How many bytes may be in use in the arena before the use has to be noted again, at the ring's current use. Far below 0 while
    /// this is unknown.
    slack: i64,
    pub(super) records: RecordStack,
    ring: Ring,
    /// The number of the ring among all arenas.
    id: Option<ArenaId>,
    /// Waits before the ring asks for more memory again.
    waits: Backoff,
    /// Entries that went by the plan since it is known what the plans carry.
    pub(super) entries: u32,
    /// The most bytes that were in use at the end of an entry since the last look.
    lately: u64,
    /// The number of entries since the last look.
    lately_entries: u32,
    /// Waits before another ring is tried, after one that was not worth its memory.
    pub(super) trials: Backoff,
    comparison: Comparison,
    /// The arrays that the plans carry.
    plan: CarryPlan,
}

/// The arrays that a plan carries, as the ring sees them.
#[derive(Clone, Debug, Default)]
pub(super) struct CarryPlan {
    /// The largest of their sizes; 0 if the plan carries nothing.
    pub(super) largest: u64,
    /// Whether all of them have this size.
    pub(super) are_alike: bool,
    /// The size up to which the ring grows before it starts over; 0 if that is unknown.
    pub(super) target: u64,
    /// The number of births in each turn of the ring, by the position at which it begins.
    pub(super) turns: Vec<u32>,
}

/// With this slack no request fits, whatever is returned.
const UNKNOWN: i64 = i64::MIN / 2;

impl CarryPlan {
    pub(super) fn of(envelope: &Envelope) -> CarryPlan {
        let (sizes, reach) = envelope.carried();
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let are_alike = sizes.iter().all(|&size| size == largest);
        match reach {
            Some(reach) if largest > 0 => {
                let (turns, target) = Ring::turns(&sizes, reach);
                CarryPlan { largest, are_alike, target, turns }
            }
            _ => CarryPlan { largest, are_alike, ..CarryPlan::default() },
        }
    }
}

impl Carry {
    /// Begins an entry. If it `is_noted` (recorded or watched), each drop takes a slower path that notes it.
    pub(super) fn begin(&mut self, is_noted: bool) {
        self.ring.begin();
        self.path = self.id.filter(|_| !is_noted).map_or(DropPath::NOBODYS, DropPath::of_arena);
    }

    /// From now on serves the arrays that this plan carries, whose sizes may grow.
    pub(super) fn follow(&mut self, plan: CarryPlan, grows: bool) {
        if plan.largest == 0 {
            self.entries = 0;
        }
        self.ring.follow(plan.turns.clone(), plan.target, plan.are_alike);
        self.ring.look_ahead(grows);
        self.plan = plan;
    }

    /// Notes that it is unknown how much may be in use before the next note.
    #[inline]
    pub(super) fn look_again(&mut self) {
        self.slack = UNKNOWN;
    }

    /// Allows `room` bytes in use in arena and ring together before the next note. Returns how many of them may be in the arena.
    pub(super) fn set_room(&mut self, room: u64, in_ring: u64) -> u64 {
        self.slack = room as i64 - in_ring as i64;
        self.room()
    }

    /// How many bytes may be in use in the arena before the next note.
    #[inline]
    fn room(&self) -> u64 {
        self.slack.max(0) as u64
    }

    /// Whether the range serves the carried arrays for now, since it may need less memory than the ring.
    pub(super) fn is_range_used(&self) -> bool {
        !self.is_there() && self.comparison.is_range_used()
    }

    pub(super) fn is_there(&self) -> bool {
        self.id.is_some()
    }

    pub(super) fn served(&self) -> u64 {
        self.ring.served()
    }

    /// The bytes of the ring that are not in use.
    pub(super) fn idle_bytes(&self, shared: &Shared) -> u64 {
        self.ring.bytes().saturating_sub(shared.ring.live())
    }

    /// The number of arrays that are alive in the ring.
    pub(super) fn live(&self) -> u64 {
        self.ring.live()
    }
}

impl Planner {
    /// Begins an entry. If the ring was taken away, the entry goes without a ring.
    pub(super) fn begin_ring(&mut self, shared: &Shared) {
        if !self.carry.is_there() {
            return;
        }
        if shared.ring.is_lost() {
            self.lose_ring(shared);
        }
        self.carry.begin(self.learning.notes);
    }

    /// As [`serve`](Planner::serve), if the expected request is carried. The caller sets the shape. Values that are needed twice
    /// are read from memory twice, since registers are few.
    #[inline(never)]
    pub(super) fn serve_carried(&mut self, shared: &Shared, bytes: usize) -> Option<Box<Record>> {
        self.serve_from(shared, bytes, Ring::serve_here).or_else(|| self.serve_carried_near(shared, bytes))
    }

    /// As [`serve_carried`](Planner::serve_carried), if the ring has to search.
    #[inline(never)]
    fn serve_carried_near(&mut self, shared: &Shared, bytes: usize) -> Option<Box<Record>> {
        self.serve_from(shared, bytes, Ring::serve)
    }

    /// Serves the place that `serve` finds in the ring, if nothing else has to be done.
    #[inline(always)]
    fn serve_from(
        &mut self,
        shared: &Shared,
        bytes: usize,
        serve: impl FnOnce(&mut Ring, u64) -> Option<(u32, u64)>,
    ) -> Option<Box<Record>> {
        let (before, added) = (shared.ring.live(), bytes as u64);
        let is_noted = self.carry.slack - bytes as i64 >= shared.lease.live() as i64;
        if !is_noted || self.carry.records.is_empty() || !shared.ring.raise(before, before + added) {
            return None;
        }
        let Some((slot, address)) = serve(&mut self.carry.ring, added) else {
            shared.ring.lower(shared.ring.live() - added);
            return None;
        };
        let mut record = self.carry.records.pop()?;
        self.hot.cursor.step_aside();
        self.carry.slack -= bytes as i64;
        // `is_noted` says that `slack` is not below 0 here.
        self.hot.room = (self.carry.slack as u64).min(self.footprint.peak);
        record.serve_position(bytes, address, slot);
        Some(record)
    }

    /// Serves a request from the ring. The cursor has already passed its position.
    pub(crate) fn carry(&mut self, shared: &Shared, request: &Request<'_>, stream: &Stream) -> Resolved {
        let bytes = request.bytes as u64;
        let served = self.carry.ring.serve_anywhere(bytes);
        let Some((id, (slot, address))) = self.carry.id.zip(served) else {
            let may_grow = self.carry.entries > ENTRIES_BEFORE_RING;
            return if may_grow { Resolved::RingIsShort } else { Resolved::Nothing };
        };
        let before = shared.ring.live();
        let live = before + bytes;
        if !shared.ring.insist(before, live) {
            self.carry.ring.take_back(slot);
            self.lose_ring(shared);
            return Resolved::Nothing;
        }
        let mut record = self.carry.records.pop().unwrap_or_else(|| Record::of_arena(stream, self.hot.door, id));
        record.serve_position(request.bytes, address, slot);
        record.shape.assign(request.dims);
        self.note_use(shared);
        self.note(&mut record, request);
        Resolved::Record(record)
    }

    /// Takes back an array that the ring served.
    #[inline(never)]
    pub(super) fn take_back_carried(&mut self, shared: &Shared, record: Box<Record>) {
        shared.ring.lower(shared.ring.live() - record.bytes as u64);
        self.carry.slack += record.bytes as i64;
        self.hot.room = self.carry.room().min(self.footprint.peak);
        self.carry.ring.take_back(record.position());
        self.carry.records.push(record);
    }

    /// Whether the ring served this record.
    pub(super) fn is_carried(&self, record: &Record) -> bool {
        record.arena().is_some_and(|arena| Some(arena) == self.carry.id)
    }
}
