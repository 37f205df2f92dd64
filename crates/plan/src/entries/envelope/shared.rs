//! Orders that begin alike: until they part, the positions of two envelopes are the same ones.
//!
//! A training step takes other kernels for long sequences than for short ones, and evaluates the model now and then. Its first allocations are
//! the same in each step. If two plans have the same places for them, an entry that leaves one plan can go on by the other.

use super::{Envelope, Expected, Kind, VARIATION};

/// Where an array outlives the entries of one order alone, neither plan serves it. All these arrays have at most this share, 1/32, of the bytes that
/// are in use at once.
const BESIDE: u64 = 32;

impl Envelope {
    /// How many of the first positions may be the same in both orders. 0 if their first allocations tell them apart.
    pub fn shares(&self, other: &Envelope) -> usize {
        if self.part.is_some() || other.part.is_some() {
            return 0;
        }
        let mut beside = self.bound().min(other.bound()) / BESIDE;
        let pairs = self.positions.iter().zip(&other.positions);
        pairs.take_while(|(one, other)| one.may_be_same(other) && one.takes_beside(other, &mut beside)).count()
    }

    /// Gives the first `count` positions of both envelopes the same sizes, and the same lives among themselves. Those that live on have a life
    /// of their own in each.
    pub fn share(&mut self, other: &mut Envelope, count: usize) {
        for (one, other) in self.positions.iter_mut().zip(&mut other.positions).take(count) {
            if one.is_served_unlike(other) {
                (one.kind, other.kind) = (Kind::Beside, Kind::Beside);
            }
            let upper = one.upper.max(other.upper).min(count as u32);
            for both in [&mut *one, &mut *other].into_iter().filter(|both| both.is_planned()) {
                both.upper = both.upper.max(upper);
            }
            let (least, most) = (one.least.min(other.least), one.most.max(other.most));
            (one.least, one.most) = (least, most);
            (other.least, other.most) = (least, most);
        }
    }

    /// Whether both have the same positions.
    pub fn is_same_as(&self, other: &Envelope) -> bool {
        self.part.is_none() && other.part.is_none() && self.positions == other.positions
    }
}

impl Expected {
    /// Whether their sizes may be those of one position in different entries.
    fn may_be_same(&self, other: &Expected) -> bool {
        let (fewer, more) = (self.most.min(other.most), self.most.max(other.most));
        more / VARIATION <= fewer
    }

    /// Whether the plan, its ring, or neither of them serves one position, and not the other one.
    fn is_served_unlike(&self, other: &Expected) -> bool {
        let by = |expected: &Expected| (expected.is_planned(), expected.is_carried());
        by(self) != by(other)
    }

    /// Takes the bytes of positions that are served unlike from `left`. Returns whether there were enough.
    fn takes_beside(&self, other: &Expected, left: &mut u64) -> bool {
        let bytes = if self.is_served_unlike(other) { self.most.max(other.most) } else { 0 };
        left.checked_sub(bytes).map(|rest| *left = rest).is_some()
    }
}
