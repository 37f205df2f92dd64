//! Whether the range alone needs less memory than the range with a ring. This is measured: the scope goes without its ring for some
//! entries, and the reserved bytes before and after are compared. Pure decisions over bytes and calls.
//!
//! The limits of [`worth`](super::worth) hold for every scope. Below these limits, a ring is right for some scopes and wrong for
//! others. It depends on how well best fit packs their sizes.

use crate::planner::backoff::{Backoff, Pace};

/// The figures of a device that a comparison reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Bytes that are reserved.
    pub(super) bytes: u64,
    /// How often memory was taken and given back so far.
    pub(super) calls: u64,
}

/// The current comparison, and the time of the next one.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// Rises with each entry that has far more memory than was ever in use, and falls with each other entry.
    fat: u32,
    waits: Backoff,
    trial: Option<Trial>,
    /// The bytes that the last comparison allows, if it found the ring better: as many as the ring or the range needed then.
    bound: Option<u64>,
    /// The last comparison found that the range needs less.
    prefers_range: bool,
}

/// A stretch of entries without the ring.
#[derive(Clone, Copy, Debug)]
struct Trial {
    begin: u64,
    with_ring: u64,
    /// The calls at the first request of a ring in the second half.
    settled: Option<u64>,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is no comparison: the ring may grow.
    None,
    /// The comparison is not over.
    Open,
    Ring,
    Range,
}

/// A comparison begins when so many more entries had too much memory than had not. In so many entries a ring has its length.
const FAT: u32 = 32;
/// Entries without the ring: the range is trimmed four times in 15 entries, and then has to grow to what it needs.
const TRIAL: u64 = 128;
/// A ring may grow by this share beyond these bytes.
const BEYOND: u64 = 16;
/// The range is worse if it calls the device more often than once in so many entries once it has settled.
const CALLS: u64 = 4;
/// A comparison costs the memory of a ring for some entries, and pages that move.
const PACE: Pace = Pace { first: 256, factor: 4, longest: 1 << 18 };

impl Comparison {
    /// An entry with the ring ends. The scope has far more bytes than its peak in use, or not. Returns whether to compare from now on.
    pub(super) fn is_due(&mut self, entry: u64, is_fat: bool) -> bool {
        self.fat = if is_fat { self.fat + 1 } else { self.fat.saturating_sub(1) };
        self.fat >= FAT && self.waits.is_over(entry)
    }

    /// Whether the ring has grown, to `held` bytes of the scope, since a comparison found it better.
    pub(super) fn has_outgrown(&self, held: u64) -> bool {
        self.bound.is_some_and(|bound| held > bound + bound / BEYOND)
    }

    /// Begins a comparison: the ring goes.
    pub(super) fn begin(&mut self, entry: u64, now: Reading) {
        self.waits.tried(entry, PACE);
        (self.fat, self.bound) = (0, None);
        self.trial = Some(Trial { begin: entry, with_ring: now.bytes, settled: None });
    }

    /// A request asks for more of the ring. Returns whether it may have it.
    pub(super) fn verdict(&mut self, entry: u64, now: Reading) -> Verdict {
        let Some(trial) = &mut self.trial else { return Verdict::None };
        let entries = entry.saturating_sub(trial.begin);
        if entries < TRIAL / 2 {
            return Verdict::Open;
        }
        let settled = *trial.settled.get_or_insert(now.calls);
        if entries < TRIAL {
            return Verdict::Open;
        }
        let is_less = now.bytes <= trial.with_ring;
        let is_quiet = now.calls.saturating_sub(settled) <= TRIAL / 2 / CALLS;
        self.bound = Some(now.bytes.max(trial.with_ring));
        self.trial = None;
        self.prefers_range = is_less && is_quiet;
        if !self.prefers_range {
            return Verdict::Ring;
        }
        // `TRIALS` says when a ring is tried again.
        self.waits = Backoff::default();
        Verdict::Range
    }

    /// Whether the range serves the carried arrays while there is no ring. It is measured as it is without plans, where pages rarely move.
    pub(super) fn is_range_used(&self) -> bool {
        self.trial.is_some() || self.prefers_range
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result if 1600 bytes are reserved with the ring, this many bytes without it, and each entry makes this many calls.
    fn verdict(bytes: u64, calls: u64) -> Verdict {
        let mut comparison = Comparison::default();
        assert_eq!((0..1000).position(|entry| comparison.is_due(entry, true)), Some(FAT as usize - 1));
        comparison.begin(1000, Reading { bytes: 1600, calls: 0 });
        let mut entries = 1001..;
        loop {
            let entry = entries.next().unwrap();
            match comparison.verdict(entry, Reading { bytes, calls: calls * entry }) {
                Verdict::Open => (),
                found => return found,
            }
        }
    }

    #[test]
    fn the_range_is_better_if_it_reserves_less_without_calls() {
        assert_eq!(verdict(1600, 0), Verdict::Range);
        assert_eq!(verdict(1601, 0), Verdict::Ring);
        assert_eq!(verdict(100, 1), Verdict::Ring);
        assert_eq!(Comparison::default().verdict(7, Reading::default()), Verdict::None);
    }

    #[test]
    fn a_scope_that_has_little_more_than_it_needs_is_not_compared() {
        let mut comparison = Comparison::default();
        assert!(!(0..1000).any(|entry| comparison.is_due(entry, entry % 2 == 0)));
        comparison.begin(0, Reading::default());
        assert_eq!((0..4000).position(|entry| comparison.is_due(entry, true)), Some(256));
        comparison.begin(256, Reading { bytes: 0, calls: 0 });
        assert_eq!(
            (257..=256 + TRIAL).map(|entry| comparison.verdict(entry, Reading { bytes: 1600, calls: 0 })).last(),
            Some(Verdict::Ring)
        );
        assert_eq!([1700, 1701].map(|held| comparison.has_outgrown(held)), [false, true]);
    }
}
