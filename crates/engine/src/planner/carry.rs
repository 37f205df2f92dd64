//! What is carried from entry to entry: a ring of memory for arrays that are alive when their successors are born.
//!
//! The ring lies in blocks of its own, as it is never empty between two entries, when plans are laid out and their arena
//! comes and goes. It begins small, and grows by what is missing while the arrays of before, which lie elsewhere, are dropped.
//! While nothing in it is alive others may take it away, as an arena ([`lease`](crate::pressure::lease)).

mod shortening;

use super::Planner;
use super::backoff::{Backoff, Pace};
use super::effects::Vacated;
use crate::device::{ALIGNMENT, Stream};
use crate::home::Shared;
use crate::pressure::transit::Transit;
use crate::range::Taken;
use crate::record::{ArenaId, DropPath, Record, Request, Stack};
use gpucache_plan::entries::{Envelope, Ring, Turns};
use shortening::Shortening;

/// The ring of a scope's plans.
pub(super) struct Carry {
    /// What [`take_back`](Planner::take_back) goes by: nobody's while there is no ring.
    pub(super) path: DropPath,
    /// So many bytes may be in use in the arena before it has to be noted how much is, with what is in use in the ring now. Far
    /// below 0 where that is not known.
    slack: i64,
    records: Stack,
    ring: Ring,
    /// Names the ring among all arenas.
    id: Option<ArenaId>,
    /// What a request lacks that was not served.
    wanted: Option<u64>,
    /// Waits before more memory is asked for again.
    waits: Backoff,
    /// Entries since what the plans carry is known.
    entries: u32,
    /// The most bytes in use at the end of an entry since that was looked at, and entries until it is.
    lately: u64,
    look_in: u32,
    shortening: Shortening,
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

/// More memory that a ring is to have.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    pub(crate) stream: Stream,
    /// What the last block lacks at its end.
    pub(crate) more: u64,
    /// What a block of its own lacks.
    pub(crate) bytes: u64,
    /// A block that makes the ring as large as it gets, as far as that is known, and `held` is what the ring has.
    pub(crate) whole: u64,
    pub(crate) held: u64,
    /// Addresses to keep free for a block that is new.
    pub(crate) room: u64,
}

/// A ring grows by this share of itself at least, so that one that grows in each entry calls the device in few of them: one in 36 for
/// ten prompts of 512 tokens and random length and batch, where 1/40 has one in 27; half of it is idle on average.
const STEP: u64 = 20;
/// A ring has room for so many times its first block, at least [`LEAST_ROOM`]. Addresses cost nothing.
const ROOM: u64 = 256;
const LEAST_ROOM: u64 = 1 << 30;
/// A ring grows once so many entries have gone by the plan: until then idle blocks of the lists do, and what is kept in the first
/// entries alone costs no ring.
const PATIENCE: u32 = 4;
/// A ring of which half is idle is given up, but not for a page.
const LITTLE: u64 = 2 << 20;
/// Entries between two looks at how much of a ring is in use: to grow again costs calls, and what a cache of keys needs for one prompt
/// the next one needs again, after some hundred tokens.
const LOOK_IN: u32 = 1024;
/// The first block of a ring of which it is not known how large it gets, and how many times as large as the ring each further one is:
/// four of them fill a page of 2 MiB by half, as long as it lies in one.
const SMALLEST: u64 = 16 << 10;
const FOLD: u64 = 3;
/// A ring of more blocks than this grows no more: each wastes up to an array at its end.
const MOST_REGIONS: usize = 8;

impl Default for Carry {
    fn default() -> Carry {
        Carry {
            path: DropPath::NOBODYS,
            slack: UNKNOWN,
            records: Stack::default(),
            ring: Ring::default(),
            id: None,
            wanted: None,
            waits: Backoff::default(),
            entries: 0,
            lately: 0,
            look_in: LOOK_IN,
            shortening: Shortening::default(),
            plan: CarryPlan::default(),
        }
    }
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
        self.path = self.id.filter(|_| !is_noted).map_or(DropPath::NOBODYS, DropPath::of_arena);
    }

    /// Another request comes.
    #[inline]
    pub(super) fn forget_wanted(&mut self) {
        self.wanted = None;
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
    pub(super) fn take_records(&mut self) -> Stack {
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
            self.vacate_ring(shared);
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

    /// Serves a request whose position was stepped over from the ring. If that has no room, `None`: it may grow then
    /// ([`wanted_growth`](Planner::wanted_growth)), and be asked again.
    pub(crate) fn carry(&mut self, shared: &Shared, request: &Request<'_>, stream: &Stream) -> Option<Box<Record>> {
        let bytes = request.bytes as u64;
        let served = self.carry.ring.serve_anywhere(bytes);
        let Some((id, (slot, address))) = self.carry.id.zip(served) else {
            self.carry.wanted = Some(bytes);
            return None;
        };
        let before = shared.ring.live();
        let live = before + bytes;
        if !shared.ring.insist(before, live) {
            self.carry.ring.take_back(slot);
            self.vacate_ring(shared);
            return None;
        }
        let mut record = self.carry.records.pop().unwrap_or_else(|| Record::of_arena(stream, self.hot.door, id));
        record.serve_position(request.bytes, address, slot);
        record.shape.assign(request.dims);
        self.note_use(shared);
        self.note(shared, &mut record, request);
        Some(record)
    }

    /// The request that the ring had no room for goes beside it.
    pub(crate) fn carry_aside(&mut self) {
        self.carry.wanted = None;
        self.carry.ring.pass();
        self.entry.aside += 1;
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

    /// Whether the ring had no room for the request that was asked for last.
    #[inline]
    pub(crate) fn wants_growth(&self) -> bool {
        self.carry.wanted.is_some() && self.carry.entries > PATIENCE
    }

    /// What the ring has to grow by for the request that it could not serve, if that may be tried.
    pub(crate) fn wanted_growth(&mut self) -> Option<Growth> {
        let wanted = self.carry.wanted?;
        let stream = self.plans.stream()?.clone();
        let Carry { ring, waits, plan, .. } = &mut self.carry;
        let may_grow = ring.regions() <= MOST_REGIONS && waits.is_over(self.entry.number);
        let (wanted, step) = (wanted.next_multiple_of(ALIGNMENT), ring.bytes() / STEP);
        let more = ring.lacks(wanted).max(step).next_multiple_of(ALIGNMENT);
        let bytes = wanted.max(step).next_multiple_of(ALIGNMENT);
        let room = plan.target.max(plan.largest.max(wanted).saturating_mul(ROOM)).max(LEAST_ROOM);
        let held = ring.bytes();
        let whole = match plan.target.saturating_sub(held) {
            0 => bytes.max(held.saturating_mul(FOLD)).max(SMALLEST),
            lacking => bytes.max(lacking),
        };
        may_grow.then_some(Growth { stream, more, bytes, whole, held, room })
    }

    /// Whether it has one, or had it until it was taken away.
    pub(crate) fn has_ring(&self) -> bool {
        self.carry.is_there()
    }

    /// No more memory was to be had.
    pub(crate) fn refuse_growth(&mut self) {
        self.carry.waits.tried(self.entry.number, Pace::STEEP);
    }

    /// The ring's last block got so many bytes more, for which so much was taken from the device.
    pub(crate) fn ring_grew(&mut self, shared: &Shared, bytes: u64, taken: Taken) {
        let last = self.carry.ring.regions().saturating_sub(1);
        self.carry.ring.lengthen(last, bytes);
        self.carry.shortening.note_growth(self.entry.number, self.carry.ring.bytes());
        shared.counters.ring_grew(bytes, taken);
    }

    /// The ring has another block from now on, its first one if it had none.
    pub(crate) fn add_to_ring(&mut self, shared: &Shared, address: u64, bytes: u64, taken: Taken) {
        if self.carry.id.is_none() {
            let id = ArenaId::next();
            self.carry.id = Some(id);
            self.carry.records.join(id);
            self.carry.begin(self.learning.notes);
        }
        self.carry.ring.add_region(address, bytes);
        shared.counters.ring_grew(bytes, taken);
    }

    /// Gives the ring up, with a place of its own for what is alive in it.
    pub(crate) fn vacate_ring(&mut self, shared: &Shared) {
        let Some(arena) = self.carry.id.take() else { return };
        self.publish(shared);
        let (bytes, live_bytes) = (self.carry.ring.bytes(), shared.ring.live());
        let live = self.carry.ring.evict();
        shared.counters.ring_given_up(bytes, live.len() as u64, live_bytes);
        let transit = Transit::begin();
        if let Some(leased) = shared.ring.end() {
            self.effects.vacated.push(Vacated { leased, arena, live, transit });
        }
        (self.carry.path, self.carry.wanted) = (DropPath::NOBODYS, None);
        (self.carry.lately, self.carry.look_in) = (0, LOOK_IN);
        self.look_again();
    }

    /// Whether the ring is worth its memory, of which so much is in use at the end of an entry: looks back over some entries.
    fn needs_ring(&mut self, live: u64) -> bool {
        let Carry { lately, look_in, ring, plan, .. } = &mut self.carry;
        (*lately, *look_in) = ((*lately).max(live), look_in.saturating_sub(1));
        let is_used = match *look_in {
            0 => std::mem::take(lately) + plan.largest + LITTLE >= ring.bytes() / 2,
            _ => true,
        };
        if *look_in == 0 {
            *look_in = LOOK_IN;
        }
        is_used && (live > 0 || self.plans.carry().largest > 0)
    }

    /// Where memory is wanted elsewhere: gives the ring up if more of it is idle than in use.
    pub(crate) fn make_room(&mut self, shared: &Shared) {
        if self.carry.idle_bytes(shared) > shared.ring.live() {
            self.vacate_ring(shared);
        }
    }

    /// At the end of an entry: gives the ring up if it was taken away or nothing is carried any more, or else what is free at its
    /// end and not needed.
    pub(super) fn tidy_ring(&mut self, shared: &Shared) {
        if self.carry.id.is_none() {
            return;
        }
        if shared.ring.is_lost() || !self.needs_ring(shared.ring.live()) {
            self.refuse_growth();
            return self.vacate_ring(shared);
        }
        self.shorten_ring(shared);
    }
}
