//! What a ring carries of an envelope, and what goes beside plan and ring.

use super::{ALIGN, Envelope, Expected, Kind};
use crate::entries::log::OUTLIVES;

/// Sizes are alike if they differ by this share at most: a hole that one leaves will do for another.
const ALIKE: u64 = 4;
/// By this share an arena and a ring may be more than what is alive at once.
const CARRIED_SHARE: u64 = 32;

impl Envelope {
    /// The envelope that a layout is made of. What wraps is carried, if the ring is not much more memory beside an arena without
    /// it, and goes beside the plan otherwise, as everything does that does not suit a ring.
    pub fn arranged(&self) -> Envelope {
        let within_bytes = self.with_wraps(Kind::Beside).bound();
        let all = self.bound();
        let is_little_more = within_bytes + self.wrapped_bytes() <= all + all / CARRIED_SHARE;
        let mut arranged = self.with_wraps(if is_little_more { Kind::Carried } else { Kind::Beside });
        if !arranged.suits_a_ring() {
            let carried = arranged.positions.iter_mut().filter(|expected| expected.is_carried());
            carried.for_each(|expected| expected.kind = Kind::Beside);
        }
        arranged
    }

    /// Whether what is carried is dropped in a known order and of steady sizes, or all of it of like sizes. Otherwise a ring has
    /// gaps: the range's best fit wastes less, and what is carried goes beside the plan.
    pub fn suits_a_ring(&self) -> bool {
        let mut carried = self.positions.iter().filter(|expected| expected.is_carried());
        let sizes = carried.clone().map(|expected| expected.most);
        let (least, most) = sizes.fold((u64::MAX, 0), |(least, most), size| (size.min(least), size.max(most)));
        let is_steady = carried.all(|expected| expected.kind == Kind::Carried && !expected.varies());
        is_steady || most <= least.saturating_add(least / ALIKE)
    }

    fn with_wraps(&self, kind: Kind) -> Envelope {
        let mut envelope = self.clone();
        let wraps = envelope.positions.iter_mut().filter(|expected| expected.kind == Kind::Wraps);
        wraps.for_each(|expected| expected.kind = kind);
        envelope
    }

    /// Bytes that are alive between two entries of what wraps.
    fn wrapped_bytes(&self) -> u64 {
        self.positions.iter().filter(|expected| expected.kind == Kind::Wraps).map(|expected| expected.most).sum()
    }

    /// The bytes of what is carried, in order, and how many bytes of it are born during the longest of those lives, its own
    /// included, if both are the same in each entry.
    pub fn carried(&self) -> (Vec<u64>, Option<u64>) {
        let is_carried = |expected: &&Expected| expected.is_carried();
        let round = |expected: &Expected| expected.most.next_multiple_of(ALIGN);
        let sizes: Vec<u64> = self.positions.iter().filter(is_carried).map(round).collect();
        let is_steady = |expected: &Expected| expected.kind == Kind::Carried && !expected.varies();
        if !self.positions.iter().filter(is_carried).all(|expected| is_steady(expected) && expected.upper != OUTLIVES) {
            return (sizes, None);
        }
        let mut before = vec![0; self.len() + 1];
        for (place, expected) in self.positions.iter().enumerate() {
            before[place + 1] = before[place] + if expected.is_carried() { round(expected) } else { 0 };
        }
        let carried = self.positions.iter().enumerate().filter(|(_, expected)| expected.is_carried());
        let reach = |(place, expected): (usize, &Expected)| {
            before[self.len()] + before[expected.upper as usize] - before[place]
        };
        (sizes, Some(carried.map(reach).max().unwrap_or(0)))
    }
}
