//! Orders that begin alike: until they part, the positions of two envelopes are the same ones.
//!
//! A training step takes other kernels for long sequences than for short ones, and evaluates the model now and then. Its first allocations are
//! the same in each step. If two plans have the same places for them, an entry that leaves one plan can go on by the other.

use super::{ALIGN, Envelope, Expected, Kind, VARIATION};
use crate::entries::log::OUTLIVES;

/// Where an array outlives the entries of one order alone, the ring serves it in both. All these arrays have at most this share, 1/32, of the bytes
/// that are in use at once, since the ring takes memory beside the arena. The share was chosen, not measured.
const IN_RING: u64 = 32;
/// If the plan has no ring for it, the array goes beside both plans, and counts as so many. In a replay of ViT-B/16, one such array in each step cost
/// 1/85 of the live memory.
const BESIDE: u64 = 32;

impl Envelope {
    /// How many of the first positions may be the same in both orders. None if only a part of one of them is regular.
    pub fn shares(&self, other: &Envelope) -> usize {
        if self.is_partial() || other.is_partial() {
            return 0;
        }
        let mut left = self.bound().min(other.bound()) / IN_RING;
        let pairs = self.positions.iter().zip(&other.positions);
        pairs.take_while(|(one, other)| one.may_be_same(other) && one.takes(other, &mut left)).count()
    }

    /// Gives the first `count` positions of both envelopes the same sizes, and the same lives among themselves. A life that goes on behind
    /// these positions ends as in its own order.
    pub fn share(&mut self, other: &mut Envelope, count: usize) {
        for (place, (one, other)) in self.positions.iter_mut().zip(&mut other.positions).take(count).enumerate() {
            if one.is_served_unlike(other) {
                one.serve_alike(other);
            }
            let upper = one.upper.max(other.upper).min(count as u32);
            for both in [&mut *one, &mut *other].into_iter().filter(|both| both.is_planned()) {
                both.upper = both.upper.max(upper);
            }
            let (least, most) = (one.least.min(other.least), one.most.max(other.most));
            (one.most, other.most) = (most, most);
            // A first allocation that is smaller than all of one order shows that the entry has the other one.
            if place > 0 {
                (one.least, other.least) = (least, least);
            }
        }
    }

    /// Whether both have the same positions.
    pub fn is_same_as(&self, other: &Envelope) -> bool {
        !self.is_partial() && !other.is_partial() && self.positions == other.positions
    }
}

impl Expected {
    /// Whether their sizes may be those of one position in different entries.
    fn may_be_same(&self, other: &Expected) -> bool {
        // In units, since a place has whole ones. If the ranges of sizes do not overlap, these are their ends that face each other.
        let [upper, lower] =
            [self.least.max(other.least), self.most.min(other.most)].map(|bytes| bytes.div_ceil(ALIGN));
        upper / VARIATION <= lower
    }

    /// Whether the plan, its ring, or neither of them serves one position, and not the other one.
    fn is_served_unlike(&self, other: &Expected) -> bool {
        let by = |expected: &Expected| (expected.is_planned(), expected.is_carried());
        by(self) != by(other)
    }

    /// Lets the ring serve both positions if it serves one of them, and else neither plan nor ring. The end of a life in the ring is that of its own
    /// order, so it is not known for the other one.
    fn serve_alike(&mut self, other: &mut Expected) {
        let is_carried = self.is_carried() || other.is_carried();
        for both in [self, other] {
            if !is_carried {
                both.kind = Kind::Beside;
            } else if !both.is_carried() {
                (both.kind, both.upper) = (Kind::Outlives, OUTLIVES);
            }
        }
    }

    /// Takes the bytes of positions that are served unlike from `left`. Returns whether there were enough.
    fn takes(&self, other: &Expected, left: &mut u64) -> bool {
        let times = match self.is_carried() || other.is_carried() {
            true => 1,
            false => BESIDE,
        };
        let bytes = if self.is_served_unlike(other) { self.most.max(other.most).saturating_mul(times) } else { 0 };
        left.checked_sub(bytes).map(|rest| *left = rest).is_some()
    }
}
