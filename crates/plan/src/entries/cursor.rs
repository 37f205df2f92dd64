//! The cursor: serves the allocations of an entry in the order of its plan, and stays correct whatever the program does.
//!
//! A position is *live* from the moment it is served until its array is returned, perhaps in a later entry. Each live position has
//! a *reuser*, which it blocks. Invariant: if a live position has the reuser `r`, none of the positions from `next` up to
//! `r`, in the circle of entries, overlaps its addresses. So if nothing blocks the position `next`, it overlaps no live
//! position: each live position has another reuser, and `next` lies before that. A position that is passed over without being served
//! hands each of its blockers on: to the next position that overlaps the blocker.
//!
//! As long as the entry follows its plan, the reuser of a position is its first one. The position blocks it just by being live,
//! and a return only clears a mark. A position that blocks another reuser than planned is *displaced*, and the reuser
//! counts it. In step with the plan a service is a comparison, a look at the possible blockers, and a step. `off_order` has
//! everything else.
//!
//! ```text
//!                  it is next, nothing blocks it: served
//!          ┌───────────────────────────────────────────────────┐
//!          │                                                   ▼
//!      ┌───┴──┐                 comes back                 ┌──────┐
//!      │ idle │ ◀───────────────────────────────────────── │ live │  blocks its first reuser, by a mark
//!      └──────┘                                            └───┬──┘
//!        ▲  │                                                  │  its first reuser is passed over,
//!        │  │  served late,                                    │  or the entry before was cut short
//!        │  │  after it was                                    ▼
//!        │  │  passed over                               ┌───────────┐ ◀─┐  its reuser is passed over:
//!        │  └──────────────────────────────────────────▶ │ displaced │   │  it blocks the next one
//!        └─────────────── comes back ─────────────────── └───────────┘ ──┘
//!                                                         blocks the reuser that `off_order` has for it, by a count
//! ```
//!
//! When the plan's block is given up (`evict`), all positions become idle.

mod branch;
mod extents;
mod off_order;
mod partly;
mod position;
mod rooms;
mod smaller;
#[cfg(test)]
mod tests;

pub(super) use extents::Extents;
use off_order::OffOrder;
pub use off_order::{Answer, Deviation};
use position::{CARRIED, DISPLACED, IDLE, NOWHERE, PARTIAL, Position, SENTINELS, UNASKED, WHOLE};
use rooms::Rooms;

use super::envelope::{ALIGN, Envelope, Expected};
use super::reuse::FirstReusers;
use crate::layout::{Buffer, Layout};

/// Serves positions in order.
///
/// The fields that a step needs lie in one cache line. The cursor does not count live bytes: the owner of the plan's block
/// does, and passes the number where it matters.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Cursor {
    /// The position that is expected next; the number of positions at the end of the entry.
    next: usize,
    positions: Vec<Position>,
    /// The life of each position: [`IDLE`], or [`WHOLE`] with the bits that apply. The [`SENTINELS`] follow.
    lives: Vec<u8>,
    /// The bytes of positions that are live in part. They keep only these bytes when the plan's block is given up.
    sizes: Vec<u64>,
    /// Services of earlier entries. Those of this entry are `next` minus `passed_over`.
    served: u64,
    passed_over: u64,
    /// If only a part of each entry is planned in order. Each entry looks here, as at the counts above.
    rooms: Option<Box<Rooms>>,
    first_reusers: FirstReusers,
    off_order: OffOrder,
    /// The number of positions that have a place or are carried, and the sum of their largest requests in bytes.
    places: (u64, u64),
}

/// A carried array whose size varies may exceed its largest known size by this fraction, 1/16, and still be in order. So an array
/// that grows by a row in each entry, such as a cache of keys, deviates in few entries.
const AHEAD: u64 = 16;

/// A position that serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The number of the position in its plan.
    pub position: u32,
    /// Offset in bytes from the start of the plan's block.
    pub offset: u64,
    /// Whether the request takes the whole place.
    is_whole: bool,
}

impl Cursor {
    /// A cursor over a layout of the envelope's buffers.
    pub fn new(envelope: &Envelope, buffers: &[Buffer], layout: &Layout) -> Cursor {
        let first_reusers = FirstReusers::of(buffers, layout);
        let position = |number: usize| {
            let before = first_reusers.first_two(number);
            let Some(expected) = envelope.at(number).filter(|_| buffers[number].size > 0) else {
                let before = [first_reusers.always_live(); 2];
                let is_carried = envelope.at(number).is_some_and(Expected::is_carried);
                let offset = if is_carried { CARRIED } else { NOWHERE };
                return Position { least: UNASKED, spread: 0, offset, blockers: 0, before };
            };
            let (least, spread) = (expected.least, buffers[number].size - expected.least);
            Position { least, spread, offset: (layout.offsets[number] / ALIGN) as u32, blockers: 0, before }
        };
        let positions: Vec<Position> = (0..buffers.len()).map(position).collect();
        let mut lives = vec![IDLE; positions.len()];
        lives.extend(SENTINELS);
        let sizes = vec![0; positions.len()];
        let (next, passed_over) = (positions.len(), positions.len() as u64);
        let mut cursor = Cursor { positions, lives, sizes, next, passed_over, first_reusers, ..Cursor::default() };
        (0..cursor.positions.len()).for_each(|position| cursor.fit_carried(position, envelope));
        cursor.places = envelope.places();
        cursor.rooms = Rooms::of(envelope, &cursor.positions);
        cursor
    }

    /// The number of positions that have a place or are carried, and the sum of their largest requests in bytes.
    ///
    /// If only a part of the entry is regular: also the requests that rooms served in this entry.
    pub fn places(&self) -> (u64, u64) {
        let (number, bytes) = self.places;
        self.rooms.as_ref().map_or(self.places, |rooms| (number + rooms.served, bytes.saturating_add(rooms.bytes)))
    }

    /// Updates a carried position from the envelope, in which its largest request had `most` bytes before.
    pub fn widen_carried(&mut self, position: usize, most: u64, envelope: &Envelope) {
        self.fit_carried(position, envelope);
        let more = envelope.at(position).map_or(0, |expected| expected.most.saturating_sub(most));
        self.places.1 = self.places.1.saturating_add(more);
    }

    fn fit_carried(&mut self, position: usize, envelope: &Envelope) {
        if let Some(expected) = envelope.at(position).filter(|expected| expected.is_carried())
            && let Some(carried) = self.positions.get_mut(position)
        {
            let ahead = if expected.varies() { expected.most / AHEAD } else { 0 };
            (carried.least, carried.spread) = (expected.least, expected.most - expected.least + ahead);
        }
    }

    /// Whether the expected position is carried and this request fits it.
    #[inline]
    pub fn carries(&self, bytes: u64) -> bool {
        self.positions.get(self.next).is_some_and(|next| next.fits(bytes) && next.is_carried())
    }

    /// Steps over the expected position, because something else serves it.
    #[inline]
    pub fn step_aside(&mut self) {
        self.next += 1;
        self.passed_over += 1;
    }

    /// Begins an entry. `has_live` says whether positions are live.
    pub fn begin(&mut self, has_live: bool) {
        // A gate that is left may be the reuser of a live position.
        let was_complete = self.next == self.positions.len() && !self.off_order.is_cut;
        (self.served, self.passed_over) = (self.served(), 0);
        self.next = 0;
        self.begin_rooms();
        self.end_smaller();
        self.off_order.begin(self.positions.len());
        if has_live && !was_complete {
            self.rebase();
        }
    }

    /// The expected position, if this request fits it and at most two possible blockers had to be looked at to see that nothing
    /// live lies there.
    #[inline]
    pub fn expects(&self, bytes: u64) -> Option<Served> {
        let next = self.positions.get(self.next)?;
        let [one, other] = next.before;
        // This covers the position itself: if it were live, it would be its own reuser by now, and so among its blockers.
        (next.fits(bytes) && self.is_idle(one) && self.is_idle(other)).then(|| next.serve(self.next, bytes))
    }

    /// Serves the request at the position that [`expects`](Cursor::expects) returned. The caller passes the position, so nothing is
    /// read again.
    #[inline]
    pub fn step(&mut self, served: Served, bytes: u64) {
        self.begin_life(served, bytes);
        self.next = served.position as usize + 1;
    }

    #[inline(always)]
    fn begin_life(&mut self, served: Served, bytes: u64) {
        if let Some(life) = self.lives.get_mut(served.position as usize) {
            *life = WHOLE;
            if !served.is_whole {
                *life = WHOLE | PARTIAL;
                self.sizes[served.position as usize] = bytes;
            }
        }
    }

    /// Serves the expected position, if this request fits it and nothing blocks it.
    pub fn serve(&mut self, bytes: u64) -> Option<Served> {
        let next = self.positions.get(self.next).filter(|next| next.fits(bytes) && next.is_planned())?;
        let served = next.serve(self.next, bytes);
        self.is_free(self.next).then(|| self.step(served, bytes))?;
        Some(served)
    }

    /// Whether nothing blocks the position.
    fn is_free(&self, position: usize) -> bool {
        self.positions[position].blockers == 0
            && self.first_reusers.before(position).iter().all(|&other| self.is_idle(other))
    }

    /// Takes back a position whose array was dropped.
    #[inline]
    pub fn take_back(&mut self, position: u32) {
        match self.lives.get_mut(position as usize) {
            Some(life) => {
                if std::mem::replace(life, IDLE) & DISPLACED != 0 {
                    self.unblock(position);
                }
            }
            None => self.take_back_part(position),
        }
    }

    /// Takes back the position that was served last, since nothing uses it. It does not count as served.
    pub fn undo(&mut self, position: u32) {
        self.take_back(position);
        match position as usize + 1 == self.next {
            true => self.next -= 1,
            false => self.passed_over += 1,
        }
    }

    #[inline]
    fn is_idle(&self, position: u32) -> bool {
        self.lives.get(position as usize) == Some(&IDLE)
    }

    /// Whether this position is live.
    pub fn is_live(&self, position: usize) -> bool {
        self.lives[position] != IDLE
    }

    /// Whether the entry has reached the end of the plan.
    pub fn is_complete(&self) -> bool {
        (self.next == self.positions.len() || self.has_gates_left()) && !self.off_order.is_cut
    }

    /// Continues at a later position, since the program does. Passes over those before it.
    pub fn skip_to(&mut self, position: usize) {
        let position = position.min(self.positions.len());
        if position > self.next {
            self.passed_over += (position - self.next) as u64;
            self.next = position;
            self.rebase();
        }
    }

    /// Whether this entry has requested nothing yet.
    pub fn is_at_start(&self) -> bool {
        self.next == 0
    }

    /// Continues the count of services of another cursor.
    pub fn count_on(&mut self, before: &Cursor) {
        // This cursor is at the end of its entry, in which it served nothing.
        (self.served, self.passed_over) = (before.served(), self.next as u64 + self.parts_served());
    }

    /// How often a position was served.
    pub fn served(&self) -> u64 {
        (self.served + self.next as u64 + self.parts_served()).wrapping_sub(self.passed_over)
    }

    /// How many positions are live.
    pub fn live(&self) -> u64 {
        let (rooms, parts) = self.rooms.as_ref().map_or((0, 0), |rooms| rooms.live());
        let positions = self.lives[..self.positions.len()].iter().filter(|&&life| life != IDLE).count();
        positions as u64 - rooms + parts
    }

    /// The numbers of the live positions.
    pub fn live_positions(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.positions.len()).filter(|&position| self.is_live(position))
    }

    /// The position that is expected next.
    pub fn next(&self) -> usize {
        self.next
    }

    /// The number of positions.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether a plan is empty")]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// How many positions the entry has not reached.
    pub fn left(&self) -> u64 {
        self.positions.len().saturating_sub(self.next) as u64
    }

    /// Takes every live position out of the plan. Returns their numbers and offsets in order of address. Each has the bytes of its
    /// request, which may be far fewer than its place has.
    pub fn evict(&mut self) -> Vec<Evicted> {
        let mut evicted = Vec::new();
        self.forget_displaced();
        self.evict_parts(&mut evicted);
        for (number, position) in self.positions.iter().enumerate() {
            let life = std::mem::replace(&mut self.lives[number], IDLE);
            if life != IDLE {
                let bytes = if life & PARTIAL != 0 { self.sizes[number] } else { position.size() };
                evicted.push(Evicted { position: number as u32, piece: 0, offset: position.start(), bytes });
            }
        }
        evicted.sort_unstable_by_key(|evicted| evicted.offset);
        self.stop();
        evicted
    }
}

/// A live position that was taken out of its plan, or a slot of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The number of the position, or of the slot.
    pub position: u32,
    /// The index of the block that contains it. A ring may have several blocks; a plan has one.
    pub piece: usize,
    /// Offset in bytes from the start of the block.
    pub offset: u64,
    /// Its size in bytes.
    pub bytes: u64,
}
