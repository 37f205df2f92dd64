//! The choice of the entries of a known order that are timed. Not all are, since marks would be the only events that their fetches cost.
//!
//! Of the entries with new moves, the first two are timed, then one in 16, and from the 49th on one in 64. A timed entry counts for all
//! entries since the previous timed one.

use std::sync::Arc;
use std::time::Duration;

use gpucache_engine::base::sync::{Mutex, lock};

/// How many entries by new moves are timed, and how many later ones there are for each that is, at first and then.
const FIRST: u32 = 2;
const EVERY_AT_FIRST: u32 = 16;
/// A timed entry of a GPT's step of 25 ms, with 700 moves, takes 5.5 ms longer on an H100, together with the entry behind it. One in 16 cost
/// 1.4% of the speed, and one in 64 costs 0.3%.
const EVERY: u32 = 64;
/// The last entry by some moves in which the work between uses is timed. Up to it, one in [`EVERY_AT_FIRST`] is.
const LAST_PACED: u32 = 3 * EVERY_AT_FIRST;

/// An entry of a known order that is timed.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// How many entries it counts for.
    pub(super) entries: u32,
    waits: Mutex<Waited>,
}

/// The purpose of timed moves: an entry of a known order, or the counts alone.
pub(super) type Timing = Option<Arc<Sample>>;

#[derive(Debug, Default)]
struct Waited {
    /// By stretch of the entry.
    stretches: Vec<Duration>,
    /// The stretch that the entry is in.
    now: usize,
    /// Waits that are not over.
    open: usize,
}

impl Sample {
    /// Another stretch of the entry begins.
    pub(super) fn turn(&self, stretch: usize) {
        lock(&self.waits).now = stretch;
    }

    /// A wait begins. Returns the stretch that it is in.
    pub(super) fn begin(&self) -> usize {
        let mut waits = lock(&self.waits);
        waits.open += 1;
        waits.now
    }

    pub(super) fn end(&self, stretch: usize, length: Duration) {
        let mut waits = lock(&self.waits);
        waits.open -= 1;
        let stretches = waits.stretches.len().max(stretch + 1);
        waits.stretches.resize(stretches, Duration::ZERO);
        // A device may tell any time.
        waits.stretches[stretch] = waits.stretches[stretch].saturating_add(length);
    }

    /// The waits in each stretch up to the last stretch with one, once all of them are over.
    pub(super) fn waits(&self) -> Option<Vec<Duration>> {
        let waits = lock(&self.waits);
        (waits.open == 0).then(|| waits.stretches.clone())
    }
}

/// The entries that go by one order.
#[derive(Debug, Default)]
pub(super) struct Sampling {
    /// Entries by these moves, and the last of them that was timed.
    entries: u32,
    timed: u32,
    /// The entry that is under way, if it is timed.
    pub(super) sample: Timing,
}

impl Sampling {
    /// The moves are other ones from now on.
    pub(super) fn restart(&mut self) {
        (self.entries, self.timed) = (0, 0);
    }

    /// An entry begins.
    pub(super) fn begin(&mut self) {
        // Nobody sees so many.
        self.entries = self.entries.saturating_add(1);
        let is_timed = self.entries == 1 || self.is_pace_due() || self.entries.is_multiple_of(EVERY);
        let entries = self.entries - self.timed;
        self.sample = is_timed.then(|| Arc::new(Sample { entries, ..Sample::default() }));
        if is_timed {
            self.timed = self.entries;
        }
    }

    /// The current entry, if the work between its uses is to be timed too. The first entry with new moves does not follow from them yet. In
    /// the second one the thread may be late, since memory is still taken, so that some later ones are timed too.
    pub(super) fn paced(&self) -> Timing {
        self.sample.clone().filter(|_| self.is_pace_due())
    }

    fn is_pace_due(&self) -> bool {
        self.entries == FIRST || self.entries <= LAST_PACED && self.entries.is_multiple_of(EVERY_AT_FIRST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_are_timed_count_for_all() {
        let mut sampling = Sampling::default();
        let mut entries = |count: u32| -> u32 {
            let mut begin = || {
                sampling.begin();
                sampling.sample.as_ref().map_or(0, |sample| sample.entries)
            };
            (0..count).map(|_| begin()).sum()
        };
        assert_eq!([entries(1), entries(1), entries(13), entries(1)], [1, 1, 0, 14]);
        assert_eq!([entries(32), entries(15), entries(1), entries(63), entries(1)], [32, 0, 16, 0, 64]);
    }
}
