//! Decides whether a ring is worth its memory. Pure functions of bytes.
//!
//! A ring lays arrays side by side that are dropped in the order of their births. If they are dropped in another order, live arrays
//! of different sizes leave gaps. Then the ring takes up to 2.5 × the bytes that are alive in it, and the range's best fit needs
//! only 1.1 to 1.6 ×. So a scope with a ring may reserve only a little more memory than its peak in use. If the ring needs more
//! than that, the scope gives it up, and the range serves the arrays instead. After a while the scope tries a ring again, ever more
//! rarely.

use crate::planner::backoff::{Backoff, Pace};

/// The record of a ring's use.
#[derive(Debug, Default)]
pub(super) struct Worth {
    /// Whether the ring was too small in this entry.
    is_short: bool,
    /// Rises with each entry in which the ring was too small or too large, and falls with each other entry.
    shortages: u32,
    /// Waits before another trial of a ring.
    trials: Backoff,
}

/// How the ring was shortened.
#[derive(Default)]
pub(super) struct Shortening {
    /// The last entry that shortened the ring.
    pub(super) shortened: Option<u64>,
    /// The length of the ring when it grew again soon after that. Its plans need this much.
    pub(super) needed: u64,
}

/// Entries between two looks at how much of a ring is in use. To grow again costs calls. The memory that a key cache needs for one
/// prompt is needed again by the next prompt, after some hundred tokens.
pub(super) const LOOK_IN: u32 = 1024;
/// A scope with a ring may have this share more bytes than its peak in use. The range's best fit wastes as much where sizes vary.
/// With a sixth, a state that grows and begins anew finds no room in its ring, and calls the device in one of 16 entries.
const SHARE: u64 = 4;
/// The ring goes when the scope has this share more. Up to this limit the ring may grow by less than half of a request, since the
/// whole request beside an idle ring would take more.
const MOST: u64 = 3;
/// As `MOST`, where sizes grow: the ring then has room for three arrays if two were in use at once.
const MOST_GROWING: u64 = 2;
/// A scope has far too much if it has this share more than its peak in use. Best fit alone reserves 1.06 times the live peak of
/// recorded runs.
const FAT: u64 = 8;
/// A page of the device. Each scope may have this much more.
const LITTLE: u64 = 2 << 20;
/// An entry in which the ring was too small or too large adds this; any other entry subtracts 1.
const SHORT: u32 = 2;
/// The ring goes at this sum, that is, after four such entries in a row.
const MOST_SHORTAGES: u32 = 4 * SHORT;
/// A trial costs the memory of a ring for some entries, and pages that move. After three failed trials, the wait is 2^18 entries.
const TRIALS: Pace = Pace { first: 64, factor: 64, longest: 1 << 18 };

impl Worth {
    /// Whether a ring may grow, or begin, in this entry.
    pub(super) fn may_try(&self, entry: u64) -> bool {
        self.trials.is_over(entry)
    }

    /// Notes that a request found no room because the ring would have exceeded its limit, or that the ring served nothing.
    pub(super) fn note_shortage(&mut self) {
        self.is_short = true;
    }

    /// Notes the end of an entry, and whether the ring was too large in it. Returns whether to give the ring up, since it was too
    /// small or too large in too many entries.
    pub(super) fn is_over(&mut self, is_too_large: bool) -> bool {
        let is_short = std::mem::take(&mut self.is_short);
        self.shortages = match is_short || is_too_large {
            true => self.shortages + SHORT,
            false => self.shortages.saturating_sub(1),
        };
        self.shortages >= MOST_SHORTAGES
    }

    /// Notes that the ring was given up because it was not worth its memory.
    pub(super) fn gave_up(&mut self, entry: u64) {
        self.trials.tried(entry, TRIALS);
        self.shortages = 0;
    }
}

impl Shortening {
    /// Notes that the ring grew to `bytes` bytes in this entry. If it was shortened not long before, its turns need more than was
    /// computed. It then keeps this length, since otherwise it would shrink and grow in each turn.
    pub(super) fn note_growth(&mut self, entry: u64, bytes: u64) {
        if self.shortened.take().is_some_and(|shortened| entry.wrapping_sub(shortened) <= u64::from(LOOK_IN)) {
            self.needed = bytes;
        }
    }
}

/// The most bytes that a scope with a ring may have, if its peak in use is `in_use` and its sizes grow or not.
pub(super) fn most(in_use: u64, grows: bool) -> u64 {
    with_share(in_use, if grows { MOST_GROWING } else { MOST })
}

/// The most bytes that the scope may have after the ring grew for a request.
pub(super) fn room(in_use: u64) -> u64 {
    with_share(in_use, SHARE)
}

/// Whether so many bytes are far more than were ever in use at once.
pub(super) fn is_fat(held: u64, in_use: u64) -> bool {
    held > with_share(in_use, FAT)
}

fn with_share(in_use: u64, share: u64) -> u64 {
    in_use.saturating_add(in_use / share).saturating_add(LITTLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entry after which the ring goes, if entries of these kinds repeat. `true` is an entry in which the ring was too small or
    /// too large.
    fn goes_after(kinds: &[bool], is_too_large: bool) -> Option<usize> {
        let mut worth = Worth::default();
        kinds.iter().cycle().take(1000).position(|&is_bad| {
            if is_bad && !is_too_large {
                worth.note_shortage();
            }
            worth.is_over(is_bad && is_too_large)
        })
    }

    #[test]
    fn a_ring_goes_that_is_too_small_or_too_large_in_more_than_a_third_of_all_entries() {
        for is_too_large in [false, true] {
            assert_eq!(goes_after(&[true], is_too_large), Some(3));
            assert!(goes_after(&[true, false], is_too_large).is_some());
            assert_eq!(goes_after(&[true, false, false], is_too_large), None);
            assert_eq!(goes_after(&[false], is_too_large), None);
        }
    }

    #[test]
    fn there_is_room_for_a_page_and_a_share_of_what_is_in_use() {
        assert_eq!((room(0), room(400 << 20)), (LITTLE, (500 << 20) + LITTLE));
        assert_eq!(room(u64::MAX), u64::MAX);
        assert_eq!([false, true].map(|grows| most(600 << 20, grows)), [800, 900].map(|mib| (mib << 20) + LITTLE));
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
        assert!(Worth::default().may_try(0));
    }

    #[test]
    fn a_ring_that_soon_grows_again_keeps_its_length() {
        let mut shortening = Shortening::default();
        shortening.note_growth(5, 100);
        assert_eq!(shortening.needed, 0, "it was not shortened");
        shortening.shortened = Some(10);
        shortening.note_growth(11 + u64::from(LOOK_IN), 100);
        assert_eq!(shortening.needed, 0, "long ago");
        shortening.shortened = Some(10);
        shortening.note_growth(11, 100);
        assert_eq!(shortening.needed, 100);
    }
}
