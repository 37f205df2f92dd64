//! Whether a ring is worth its memory. Pure decisions over bytes.
//!
//! A ring lays arrays side by side that are dropped in the order of their births. If they are dropped in another order, live arrays of
//! unlike sizes leave gaps between them, and the ring takes up to 2.5 times the bytes that are alive in it. The range's best fit
//! needs 1.1 to 1.6 times as many then. So a ring may have little more bytes than were ever in use in it at once. A ring that
//! has too little room all the same is given up: then the range serves what the ring carried. A ring is tried again after a
//! while, and ever more rarely.

use crate::planner::backoff::{Backoff, Pace};

/// What is known of a ring's use.
#[derive(Debug, Default)]
pub(super) struct Worth {
    /// The most bytes that are known to have been in use at once in the ring.
    in_ring: u64,
    /// The most bytes that were ever in use at once in arena and ring together.
    in_both: u64,
    /// Whether this entry had a request for which the ring would have become too large.
    is_short: bool,
    /// Rises with each entry in which the ring was too small or too large, and falls with each other one.
    shortages: u32,
    /// Waits before a ring is tried again.
    trials: Backoff,
}

/// Ring and arena may have this share more bytes than were in use in them at once: less than the range's best fit wastes where sizes
/// vary, and enough for the ends of turns.
const SHARE: u64 = 6;
/// A page of the device, by which a ring may be larger in any case.
const LITTLE: u64 = 2 << 20;
/// What an entry adds in which the ring was too small or too large; any other one takes 1 off.
const SHORT: u32 = 2;
/// The ring goes at this sum: after four such entries, one after the other.
const MOST_SHORTAGES: u32 = 4 * SHORT;
/// All that a scope has may be this share more than was ever in use at once, before a ring goes for one request that it has no room for:
/// as much as the range's best fit wastes in bad cases. Without a ring each carried array is a search in the range.
const WASTE: u64 = 3;
/// A trial costs the memory of a ring for some entries, and pages that move. What fails three times is not tried again for long.
const TRIALS: Pace = Pace { first: 64, factor: 64, longest: 1 << 18 };

impl Worth {
    /// Whether a ring may grow, or begin, in this entry.
    pub(super) fn may_try(&self, entry: u64) -> bool {
        self.trials.is_over(entry)
    }

    /// How many bytes the ring may have. So many were to be in use in it just now.
    pub(super) fn limit(&mut self, in_use: u64) -> u64 {
        self.in_ring = self.in_ring.max(in_use);
        allowed(self.in_ring)
    }

    /// So many bytes are in use in arena and ring together.
    pub(super) fn note_use(&mut self, in_use: u64) {
        self.in_both = self.in_both.max(in_use);
    }

    /// A request found no room, since the ring would have become larger than its limit, or the ring served nothing.
    pub(super) fn note_shortage(&mut self) {
        self.is_short = true;
    }

    /// An entry ends, with so many bytes `reserved` in arena and ring together, if that counts. Whether the ring is to be given up: too many
    /// entries found it too small, or both together too large.
    pub(super) fn is_over(&mut self, reserved: Option<u64>) -> bool {
        let is_short = std::mem::take(&mut self.is_short);
        let is_too_large = reserved.is_some_and(|reserved| reserved > allowed(self.in_both));
        self.shortages = match is_short || is_too_large {
            true => self.shortages + SHORT,
            false => self.shortages.saturating_sub(1),
        };
        self.shortages >= MOST_SHORTAGES
    }

    /// The ring was given up as it was not worth its memory.
    pub(super) fn gave_up(&mut self, entry: u64) {
        self.trials.tried(entry, TRIALS);
        self.shortages = 0;
    }

    /// Another ring begins.
    pub(super) fn begin(&mut self) {
        (self.in_ring, self.shortages) = (0, 0);
    }

    pub(super) fn forget_waits(&mut self) {
        self.trials = Backoff::default();
    }
}

/// Whether so much more is reserved than was ever in use at once that a ring is to go at once.
pub(super) fn is_wasteful(reserved: u64, in_use: u64) -> bool {
    reserved > in_use.saturating_add(in_use / WASTE).saturating_add(LITTLE)
}

/// As many bytes may be reserved where so many are in use at once.
fn allowed(in_use: u64) -> u64 {
    in_use.saturating_add(in_use / SHARE).saturating_add(LITTLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_USE: u64 = 60 << 20;
    const TOO_MUCH: u64 = IN_USE + IN_USE / SHARE + LITTLE + 1;

    /// The entry after which the ring goes, if entries of these kinds come over and over: too small (`true`) or as it should be.
    fn goes_after(kinds: &[bool]) -> Option<usize> {
        let mut worth = Worth::default();
        kinds.iter().cycle().take(1000).position(|&is_short| {
            if is_short {
                worth.note_shortage();
            }
            worth.is_over(None)
        })
    }

    #[test]
    fn a_ring_goes_that_is_too_small_in_more_than_a_third_of_all_entries() {
        assert_eq!(goes_after(&[true]), Some(3));
        assert!(goes_after(&[true, false]).is_some());
        assert_eq!(goes_after(&[true, false, false]), None);
        assert_eq!(goes_after(&[false]), None);
    }

    #[test]
    fn a_ring_goes_that_is_too_large_beside_its_arena() {
        let mut worth = Worth::default();
        worth.note_use(IN_USE);
        let entries: Vec<bool> = (0..4).map(|_| worth.is_over(Some(TOO_MUCH))).collect();
        assert_eq!(entries, [false, false, false, true]);
        let mut worth = Worth::default();
        worth.note_use(IN_USE);
        assert!((0..1000).all(|_| !worth.is_over(Some(TOO_MUCH - 1))));
        assert!((0..1000).all(|_| !worth.is_over(None)), "what the turns need is known");
    }

    #[test]
    fn a_ring_may_grow_with_what_was_in_use_in_it() {
        let mut worth = Worth::default();
        assert_eq!(worth.limit(IN_USE), TOO_MUCH - 1);
        assert_eq!(worth.limit(0), worth.limit(IN_USE), "what was in use counts");
        worth.begin();
        assert_eq!(worth.limit(0), LITTLE, "in another ring it does not");
        assert_eq!(worth.limit(u64::MAX), u64::MAX);
    }

    #[test]
    fn rings_are_tried_ever_more_rarely() {
        let mut worth = Worth::default();
        let mut trials = Vec::new();
        for entry in 0..100_000 {
            if worth.may_try(entry) {
                trials.push(entry);
                worth.gave_up(entry);
            }
        }
        assert_eq!(trials, [0, 64, 4224]);
        worth.forget_waits();
        assert!(worth.may_try(0));
    }
}
