//! What is carried from entry to entry: a ring of memory for arrays that are alive when their successors are born.
//!
//! The ring lies in blocks of its own, as it is never empty between two entries, when plans are laid out and their arena
//! comes and goes. It begins small, and grows by what is missing while the arrays of before, which lie elsewhere, are dropped.
//! While nothing in it is alive others may take it away, as an arena ([`lease`](crate::pressure::lease)).

mod size;
mod worth;

use super::backoff::Backoff;
use super::{Planner, Resolved};
use crate::device::Stream;
use crate::home::Shared;
use crate::record::{ArenaId, DropPath, Record, RecordStack, Request};
use gpucache_plan::entries::{Envelope, Ring, Turns};
use size::PATIENCE;
pub(crate) use size::RingGrowth;
use worth::{Shortening, Worth};

/// The ring of a scope's plans.
#[derive(Default)]
pub(super) struct Carry {
    /// What [`take_back`](Planner::take_back) goes by: nobody's while there is no ring.
    pub(super) path: DropPath,
    /// So many bytes may be in use in the arena before it has to be noted how much is, with what is in use in the ring now. Far
    /// below 0 where that is not known.
    slack: i64,
    records: RecordStack,
    ring: Ring,
    /// Names the ring among all arenas.
    id: Option<ArenaId>,
    /// Waits before more memory is asked for again.
    waits: Backoff,
    /// Entries since what the plans carry is known.
    entries: u32,
    /// The most bytes in use at the end of an entry since that was looked at, and entries since then.
    lately: u64,
    lately_entries: u32,
    /// What it had served when this entry began.
    served_before: u64,
    shortening: Shortening,
    worth: Worth,
    /// What the plans carry.
    plan: CarryPlan,
}

/// What a plan carries: as many bytes as a ring needs for it at least, and the turns that need no more.
#[derive(Clone, Debug, Default)]
pub(super) struct CarryPlan {
    /// 0 if nothing is carried.
    pub(super) largest: u64,
    /// As far as the ring grows before it begins anew; 0 if that is not known.
    pub(super) target: u64,
    pub(super) turns: Turns,
}

/// No request fits, whatever comes back.
const UNKNOWN: i64 = i64::MIN / 2;

impl CarryPlan {
    pub(super) fn of(envelope: &Envelope) -> CarryPlan {
        let (sizes, reach) = envelope.carried();
        let largest = sizes.iter().copied().max().unwrap_or(0);
        match reach {
            Some(reach) if largest > 0 => {
                let (turns, target) = Turns::of(&sizes, reach);
                CarryPlan { largest, target, turns }
            }
            _ => CarryPlan { largest, ..CarryPlan::default() },
        }
    }
}

impl Carry {
    /// An entry begins, which is recorded or watched and so takes a closer look at each drop if it `is_noted`.
    pub(super) fn begin(&mut self, is_noted: bool) {
        self.ring.begin();
        self.served_before = self.ring.served();
        self.path = self.id.filter(|_| !is_noted).map_or(DropPath::NOBODYS, DropPath::of_arena);
    }

    /// Another entry goes by the plan.
    #[inline]
    pub(super) fn count_entry(&mut self) {
        self.entries = self.entries.saturating_add(1);
    }

    /// Serves from now on what this plan carries.
    pub(super) fn follow(&mut self, plan: CarryPlan) {
        if plan.largest == 0 {
            self.entries = 0;
        }
        self.ring.follow(plan.turns.clone(), plan.target);
        self.plan = plan;
        self.shortening = Shortening::default();
    }

    /// It is not known how much may be in use before that is noted.
    #[inline]
    pub(super) fn look_again(&mut self) {
        self.slack = UNKNOWN;
    }

    /// As many bytes as `room` may be in use in arena and ring before that is noted. Returns how many in the arena.
    pub(super) fn set_room(&mut self, room: u64, in_ring: u64) -> u64 {
        self.slack = room as i64 - in_ring as i64;
        self.room()
    }

    /// How many bytes may be in use in the arena before that is noted.
    #[inline]
    fn room(&self) -> u64 {
        self.slack.max(0) as u64
    }

    pub(super) fn forget_waits(&mut self) {
        self.worth = Worth::default();
    }

    pub(super) fn is_there(&self) -> bool {
        self.id.is_some()
    }

    pub(super) fn served(&self) -> u64 {
        self.ring.served()
    }

    /// Bytes of it that are not in use.
    pub(super) fn idle_bytes(&self, shared: &Shared) -> u64 {
        self.ring.bytes().saturating_sub(shared.ring.live())
    }

    /// How many arrays are alive in it.
    pub(super) fn live(&self) -> u64 {
        self.ring.live()
    }

    /// All records that wait for their next use. They are the caller's to drop.
    pub(super) fn take_records(&mut self) -> RecordStack {
        std::mem::take(&mut self.records)
    }
}

impl Planner {
    /// Begins an entry, without a ring if that was taken away.
    pub(super) fn begin_ring(&mut self, shared: &Shared) {
        if !self.carry.is_there() {
            return;
        }
        if shared.ring.is_lost() {
            self.lose_ring(shared);
        }
        self.carry.begin(self.learning.notes);
    }

    /// As [`serve`](Planner::serve), where the request that is expected now is carried, and all but the shape. What is needed twice is
    /// read twice, as registers are few.
    #[inline(never)]
    pub(super) fn serve_carried(&mut self, shared: &Shared, bytes: usize) -> Option<Box<Record>> {
        self.serve_from(shared, bytes, Ring::serve_here).or_else(|| self.serve_carried_near(shared, bytes))
    }

    /// As [`serve_carried`](Planner::serve_carried), where the ring has to search.
    #[inline(never)]
    fn serve_carried_near(&mut self, shared: &Shared, bytes: usize) -> Option<Box<Record>> {
        self.serve_from(shared, bytes, Ring::serve)
    }

    /// Serves what the ring gives for it in this way, if nothing else is to be done.
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
        // As much as is in use is noted, so that it is not below 0.
        self.hot.room = (self.carry.slack as u64).min(self.footprint.peak);
        record.serve_position(bytes, address, slot);
        Some(record)
    }

    /// Serves a request whose position was stepped over from the ring.
    pub(crate) fn carry(&mut self, shared: &Shared, request: &Request<'_>, stream: &Stream) -> Resolved {
        let bytes = request.bytes as u64;
        let served = self.carry.ring.serve_anywhere(bytes);
        let Some((id, (slot, address))) = self.carry.id.zip(served) else {
            return if self.carry.entries > PATIENCE { Resolved::RingIsShort } else { Resolved::Nothing };
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
        self.note(shared, &mut record, request);
        Resolved::Record(record)
    }

    /// Takes back what the ring served.
    #[inline(never)]
    pub(super) fn take_back_carried(&mut self, shared: &Shared, record: Box<Record>) {
        shared.ring.lower(shared.ring.live() - record.bytes() as u64);
        self.carry.slack += record.bytes() as i64;
        self.hot.room = self.carry.room().min(self.footprint.peak);
        self.carry.ring.take_back(record.position());
        self.carry.records.push(record);
    }

    /// Whether the record is one that the ring served.
    pub(super) fn is_carried(&self, record: &Record) -> bool {
        record.arena().is_some_and(|arena| Some(arena) == self.carry.id)
    }
}
