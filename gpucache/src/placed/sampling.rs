//! Which entries of a known order are timed, and what the others count as.
//!
//! The first entries by new moves are timed, and then one in sixteen. An entry that is not counts as much as the last one that was,
//! once all of that is over.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use super::moves::nanoseconds;
use crate::cache::current::{self, Entry};

/// How many entries by new moves are timed, and how many later ones there are for each that is.
const FIRST: u64 = 2;
const EVERY: u64 = 16;

/// What an entry that is timed waited.
#[derive(Debug, Default)]
pub(super) struct Sample {
    nanoseconds: AtomicU64,
    /// Waits that are not over.
    open: AtomicU64,
}

impl Sample {
    pub(super) fn begin(&self) {
        self.open.fetch_add(1, SeqCst);
    }

    pub(super) fn end(&self, length: Duration) {
        self.nanoseconds.fetch_add(nanoseconds(length), SeqCst);
        self.open.fetch_sub(1, SeqCst);
    }

    /// What it waited in all, once all of that is over.
    fn waited(&self) -> Option<Duration> {
        (self.open.load(SeqCst) == 0).then(|| Duration::from_nanos(self.nanoseconds.load(SeqCst)))
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
        Some((entry, sample)) if current::outermost() == Some(*entry) => sample.clone().map(Some),
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
    /// Entries that were not timed, and do not count yet.
    owed: u32,
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
        let due = if is_timed { Duration::ZERO } else { self.owe() };
        let sample = is_timed.then(Arc::<Sample>::default);
        if is_timed {
            self.last.clone_from(&sample);
        }
        let _ = KNOWN.try_with(|known| known.replace(Some((entry, sample))));
        due
    }

    fn owe(&mut self) -> Duration {
        self.owed += 1;
        let waited = self.last.as_ref().and_then(|last| last.waited());
        waited.map_or(Duration::ZERO, |waited| waited * std::mem::take(&mut self.owed))
    }
}
