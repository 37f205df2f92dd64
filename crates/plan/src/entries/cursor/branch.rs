//! An entry leaves its plan, and goes on by another plan that begins alike.
//!
//! The positions that the entry has passed have the same numbers in both plans. An array that is alive keeps its position and its address, so
//! the other plan must have the same place there. The invariant of the module `cursor` then holds as if the other plan had served the entry
//! from its beginning: a live position whose first reuser lies behind `next` blocks that one, and each other one blocks the reuser that
//! `off_order` finds for it from `next` on.

use super::position::{PARTIAL, WHOLE};
use super::{ALIGN, Cursor, Envelope, Expected};

/// A size that differs from the expected ones by at most this share, 1/8, is more likely one more size of the same order.
const NEAR: u64 = 8;

impl Cursor {
    /// Whether a request of so many bytes fits the position that another cursor has reached, and not that cursor's own. The other cursor is that
    /// of `envelope`.
    pub fn suits_better(&self, before: &Cursor, envelope: &Envelope, bytes: u64) -> bool {
        let fits = |cursor: &Cursor| cursor.positions.get(before.next).is_some_and(|next| next.fits(bytes));
        let is_other = |next: &Expected| {
            // All sizes of an entry may be smaller than those of its order so far.
            let is_scaled = before.off_order.is_scaled && next.is_like(bytes);
            let is_near =
                bytes >= next.least - next.least / NEAR && bytes <= next.most.saturating_add(next.most / NEAR);
            !is_scaled && !is_near
        };
        fits(self) && !fits(before) && envelope.at(before.next).is_none_or(is_other)
    }

    /// Continues an entry that another cursor has served in order so far. Nothing is live in this cursor, and then nothing in the other one.
    /// Returns false, and changes nothing, if a live array of the other one lies elsewhere than in this plan.
    pub fn continue_entry(&mut self, before: &mut Cursor) -> bool {
        if !self.may_continue(before) {
            return false;
        }
        self.off_order.begin(self.positions.len());
        (self.served, self.passed_over, self.next) = (before.served, before.passed_over, before.next);
        for position in before.live_positions() {
            let bytes = before.bytes_at(position);
            let is_whole = self.positions[position].size() - bytes < ALIGN;
            self.lives[position] = if is_whole { WHOLE } else { WHOLE | PARTIAL };
            self.sizes[position] = bytes;
        }
        for position in 0..self.next {
            for place in 0..self.first_reusers.before(position).len() {
                let live = self.first_reusers.before(position)[place] as usize;
                if live < position && self.is_live(live) {
                    self.block(live);
                }
            }
        }
        before.evict();
        true
    }

    fn may_continue(&self, before: &Cursor) -> bool {
        let are_whole = self.rooms.is_none() && before.rooms.is_none();
        let is_in_order = before.off_order.passed.is_empty() && !before.off_order.is_cut;
        let is_reached = before.next <= self.positions.len();
        are_whole
            && is_in_order
            && is_reached
            && before.live_positions().all(|position| self.has_place_of(before, position))
    }

    /// Whether a position that another cursor has served has the same place here, large enough for its array.
    fn has_place_of(&self, before: &Cursor, position: usize) -> bool {
        let own = self.positions.get(position).filter(|_| position < before.next);
        own.filter(|own| own.offset == before.positions[position].offset && own.is_planned())
            .is_some_and(|own| own.size() >= before.bytes_at(position))
    }

    /// The bytes that a live position keeps.
    fn bytes_at(&self, position: usize) -> u64 {
        if self.lives[position] & PARTIAL != 0 { self.sizes[position] } else { self.positions[position].size() }
    }
}
