//! Decides which positions of an envelope a ring carries, and which are served beside both plan and ring.

use super::{ALIGN, Envelope, Expected, Kind};
use crate::entries::log::OUTLIVES;

/// Sizes are alike if they differ by at most this fraction, 1/4: one array then often fits into the gap that another one leaves.
const ALIKE: u64 = 4;
/// An arena and a ring together may exceed the live memory by this fraction, 1/32.
const CARRIED_SHARE: u64 = 32;

impl Envelope {
    /// The envelope from which a layout is made. Arrays that wrap are carried if arena and ring together then need little more memory
    /// than the envelope's bound. Otherwise they are served beside the plan. So is every array that does not suit a ring.
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

    /// Whether carried arrays suit a ring: they have steady sizes and are dropped in a known order, or their sizes are alike, in each entry.
    /// Otherwise a ring would have gaps. The range's best fit wastes less, so carried arrays are then served beside the plan.
    pub fn suits_a_ring(&self) -> bool {
        let mut carried = self.positions.iter().filter(|expected| expected.is_carried());
        let (least, most) = carried
            .clone()
            .map(Expected::sizes_in_ring)
            .fold((u64::MAX, 0), |(least, most), sizes| (sizes.0.min(least), sizes.1.max(most)));
        let is_steady = carried.all(|expected| expected.kind == Kind::Carried && !expected.varies());
        is_steady || most <= least.saturating_add(least / ALIKE)
    }

    fn with_wraps(&self, kind: Kind) -> Envelope {
        let mut envelope = self.clone();
        let wraps = envelope.positions.iter_mut().filter(|expected| expected.kind == Kind::Wraps);
        wraps.for_each(|expected| expected.kind = kind);
        envelope
    }

    /// The bytes of arrays that wrap, which are alive between two entries.
    fn wrapped_bytes(&self) -> u64 {
        self.positions.iter().filter(|expected| expected.kind == Kind::Wraps).map(|expected| expected.most).sum()
    }

    /// The sizes of carried arrays, in order. If sizes and lives are the same in each entry, also the bytes of carried arrays that are
    /// born during the longest of these lives, the array itself included.
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

impl Expected {
    /// The least and the most bytes of the gap that such an array leaves in a ring. If the order of drops is known, gaps are used in order,
    /// whatever their sizes. If sizes only grow, the old and small ones do not come again.
    fn sizes_in_ring(&self) -> (u64, u64) {
        let leaves_any_gap = self.upper == OUTLIVES && self.shrank && !self.grows();
        (if leaves_any_gap { self.least } else { self.most }, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::log::Log;

    /// The envelope of entries with one array each, of these sizes, which live for unknown times.
    fn outliving(sizes: &[u64]) -> Envelope {
        let log = |bytes| {
            let mut log = Log::default();
            log.allocated(0, bytes);
            log
        };
        let first = Envelope::of(&log(sizes[0]), &log(sizes[1])).unwrap();
        let mut all = sizes[2..].iter().fold(first, |all, &bytes| all.absorb(&log(bytes)).unwrap());
        assert!(all.carry(0) || all.at(0).unwrap().is_carried());
        all
    }

    #[test]
    fn sizes_that_come_and_go_at_random_leave_gaps_in_a_ring() {
        assert!(outliving(&[1000, 900, 950, 1050]).suits_a_ring(), "they are alike");
        assert!(!outliving(&[1000, 3000, 400, 700]).suits_a_ring());
    }

    #[test]
    fn sizes_that_only_grow_suit_a_ring() {
        assert!(outliving(&[1000, 1600, 2560, 4096]).suits_a_ring());
    }
}
