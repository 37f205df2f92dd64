//! Whether a ring is worth its memory. Pure decisions over bytes.
//!
//! A ring lays arrays side by side that are dropped in the order of their births. If they are dropped in another order, live arrays of
//! unlike sizes leave gaps between them, and the ring needs up to 2.5 times the bytes that are alive in it. The range's best fit
//! needs 1.1 to 1.6 times as many then. So a ring may have little more bytes than were ever in use in it at once. A ring that
//! has too little room all the same is given up: then the range serves what the ring carried. A ring is tried again after a
//! while, and ever more rarely.

use super::backoff::{Backoff, Pace};

/// What is known of a ring's use.
#[derive(Debug, Default)]
pub(super) struct Worth {
    /// The most bytes that are known to have been in use in it at once.
    most: u64,
    /// Whether this entry had a request for which the ring would have become too large.
    is_short: bool,
    /// Rises with each entry that had such a request, and falls with each other one.
    shortages: u32,
    /// Entries until the ring and the arena are compared with what is in use in both.
    look_in: u32,
    /// Waits before a ring is tried again.
    trials: Backoff,
}

/// Ring and arena may have this share more bytes than were in use in them at once: less than the range's best fit wastes where sizes
/// vary, and enough for the ends of turns.
const SHARE: u64 = 8;
/// A page of the device, by which a ring may be larger in any case.
const LITTLE: u64 = 2 << 20;
/// What an entry with a shortage adds; an entry without takes 1 off.
const SHORT: u32 = 2;
/// The ring goes at this sum: after four entries that had too little room, one after the other.
const MOST_SHORTAGES: u32 = 4 * SHORT;
/// Entries between two looks at ring and arena together: more than arrays of most queues live.
const LOOK_IN: u32 = 16;
/// A trial costs the memory of a ring for some entries, and pages that move.
const TRIALS: Pace = Pace { first: 64, factor: 8, longest: 1 << 18 };

/// As many bytes may be reserved where so many are in use at once.
fn allowed(in_use: u64) -> u64 {
    in_use.saturating_add(in_use / SHARE).saturating_add(LITTLE)
}

impl Worth {
    /// Whether a ring may grow, or begin, in this entry.
    pub(super) fn may_try(&self, entry: u32) -> bool {
        self.trials.is_over(entry)
    }

    /// How many bytes the ring may have. So many were to be in use in it just now.
    pub(super) fn limit(&mut self, in_use: u64) -> u64 {
        self.most = self.most.max(in_use);
        allowed(self.most)
    }

    /// A request was refused, since the ring would have become larger than its limit.
    pub(super) fn note_shortage(&mut self) {
        self.is_short = true;
    }

    /// An entry ends. Whether the ring is to be given up: it had too little room in too many entries, or it and the arena, of so many
    /// `bytes` together, have many more than were ever in use in both at once.
    pub(super) fn is_over(&mut self, bytes: u64, in_use: u64) -> bool {
        self.shortages = match std::mem::take(&mut self.is_short) {
            true => self.shortages + SHORT,
            false => self.shortages.saturating_sub(1),
        };
        self.look_in = self.look_in.saturating_sub(1);
        let is_fat = self.look_in == 0 && bytes > allowed(in_use);
        if self.look_in == 0 {
            self.look_in = LOOK_IN;
        }
        is_fat || self.shortages >= MOST_SHORTAGES
    }

    /// The ring was given up as it was not worth its memory.
    pub(super) fn gave_up(&mut self, entry: u32) {
        self.trials.tried(entry, TRIALS);
    }

    /// A ring begins, or ends.
    pub(super) fn begin(&mut self) {
        (self.most, self.is_short, self.shortages, self.look_in) = (0, false, 0, LOOK_IN);
    }

    pub(super) fn forget_waits(&mut self) {
        self.trials = Backoff::default();
    }
}
