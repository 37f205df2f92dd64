//! Which scope was entered least recently, by a clock that costs an entry a load and a store.
//!
//! It goes on only where memory is taken from a device or found missing, and not with each entry, which would have all threads
//! write one word. So scopes that were entered since the last time are of one age; of those the one goes first that was
//! entered less often.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Above 0, which stands for what nobody will enter soon.
static CLOCK: AtomicU64 = AtomicU64::new(1);

/// The time.
#[inline]
pub(crate) fn now() -> u64 {
    CLOCK.load(Relaxed)
}

/// What is entered from now on is younger.
pub(crate) fn tick() {
    CLOCK.fetch_add(1, Relaxed);
}

/// How recently a scope was entered on a thread, the least recently first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age {
    /// When it was entered last; 0 if its thread has ended.
    pub(crate) entered: u64,
    /// How often it was entered.
    pub(crate) entries: u64,
}
