//! Which entries of a known order are timed, and what the others count as.
//!
//! The first entries by new moves are timed, and then one in sixteen. An entry that is not counts as much as the last one that was,
//! once all of that is over, but no more than the time that it took itself.

use std::cell::RefCell;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use gpucache_engine::base::sync::{Mutex, MutexGuard};
use gpucache_engine::cache::Entry;

/// How many entries by new moves are timed, and how many later ones there are for each that is.
const FIRST: u64 = 2;
const EVERY: u64 = 16;
/// The last entry by some moves in which the work between uses is timed.
const LAST_PACED: u64 = 3 * EVERY;

/// What an entry that is timed waited.
#[derive(Debug, Default)]
pub(super) struct Sample {
    waits: Mutex<Waited>,
}

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
    fn lock(&self) -> MutexGuard<'_, Waited> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another stretch of the entry begins.
    pub(super) fn turn(&self, stretch: usize) {
        self.lock().now = stretch;
    }

    /// A wait begins. Returns the stretch that it is in.
    pub(super) fn begin(&self) -> usize {
        let mut waits = self.lock();
        waits.open += 1;
        waits.now
    }

    pub(super) fn end(&self, stretch: usize, length: Duration) {
        let mut waits = self.lock();
        waits.open -= 1;
        let stretches = waits.stretches.len().max(stretch + 1);
        waits.stretches.resize(stretches, Duration::ZERO);
        // A device may tell any time.
        waits.stretches[stretch] = waits.stretches[stretch].saturating_add(length);
    }

    /// What it waited in each stretch up to the last in which it did, once all of that is over.
    pub(super) fn waits(&self) -> Option<Vec<Duration>> {
        let waits = self.lock();
        (waits.open == 0).then(|| waits.stretches.clone())
    }
}

/// An entry that goes by a known order, and what it is timed for, if it is.
type Known = (Entry, Option<Arc<Sample>>);

thread_local! {
    static KNOWN: RefCell<Option<Known>> = const { RefCell::new(None) };
}

/// What the calling thread does now is timed for: an entry of a known order, or nothing more. `None` where it is not timed.
pub(super) fn current() -> Option<Option<Arc<Sample>>> {
    let sample = |known: &RefCell<Option<Known>>| match &*known.try_borrow().ok()? {
        Some((entry, sample)) if Entry::outermost() == Some(*entry) => sample.clone().map(Some),
        _ => Some(None),
    };
    // Not at a thread's end.
    KNOWN.try_with(sample).ok().flatten()
}

/// The entry that the thread is in goes by no known order: all of it is timed.
pub(super) fn time_all() {
    let _ = KNOWN.try_with(|known| known.replace(None));
}

/// The entries that go by one order.
#[derive(Debug, Default)]
pub(super) struct Sampling {
    /// Entries by these moves.
    entries: u64,
    last: Option<Arc<Sample>>,
    /// Entries that were not timed, and of which it is not known yet what they count as.
    unknown: u32,
    /// What is known to be counted, and was not yet; and when the last entry began.
    owed: Duration,
    begun: Option<Instant>,
}

impl Sampling {
    /// The moves are other ones from now on.
    pub(super) fn restart(&mut self) {
        self.entries = 0;
    }

    /// An entry begins. Returns the time that those which were not timed are known to have waited, since this was asked last.
    pub(super) fn begin(&mut self, entry: Entry) -> Duration {
        self.entries += 1;
        let is_timed = self.entries <= FIRST || self.entries.is_multiple_of(EVERY);
        let due = self.pay();
        let sample = is_timed.then(Arc::<Sample>::default);
        if is_timed {
            (self.last, self.owed) = (sample.clone(), Duration::ZERO);
        } else {
            self.unknown = self.unknown.saturating_add(1);
        }
        let _ = KNOWN.try_with(|known| known.replace(Some((entry, sample))));
        due
    }

    /// What the entry that has begun is timed for, if the work between its uses is to be timed too. What the first one by some moves does is not
    /// what follows from them. In the second one the thread may be late, as memory is still taken, so that some later ones are asked too.
    pub(super) fn paced(&self) -> Option<Arc<Sample>> {
        let is_paced = self.entries == FIRST || self.entries <= LAST_PACED && self.entries.is_multiple_of(EVERY);
        self.last.clone().filter(|_| is_paced)
    }

    /// What those before this entry waited, as far as it is known. An entry that was timed may have been slow, and no other one waited for
    /// longer than it took.
    fn pay(&mut self) -> Duration {
        let now = Instant::now();
        let passed = self.begun.replace(now).map_or(Duration::ZERO, |begun| now - begun);
        if let Some(waits) = self.last.as_ref().and_then(|last| last.waits()) {
            let waited = waits.iter().fold(Duration::ZERO, |sum, &each| sum.saturating_add(each));
            self.owed = self.owed.saturating_add(waited.saturating_mul(std::mem::take(&mut self.unknown)));
        }
        let due = self.owed.min(passed);
        self.owed -= due;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_are_not_timed_wait_for_no_longer_than_they_take() {
        let (mut sampling, begun) = (Sampling::default(), Instant::now());
        assert_eq!(sampling.begin(Entry::NONE) + sampling.begin(Entry::NONE), Duration::ZERO);
        // The last entry that was timed was slow, for a reason that the others do not have.
        let sample = sampling.paced().unwrap();
        sample.end(sample.begin(), Duration::from_secs(100));
        let mut entry = || {
            std::thread::sleep(Duration::from_millis(1));
            sampling.begin(Entry::NONE)
        };
        let counted: Duration = (0..8).map(|_| entry()).sum();
        let passed = begun.elapsed();
        assert!(counted <= passed && counted >= Duration::from_millis(6), "{counted:?} of {passed:?}");
    }
}
