//! The number that identifies a thread to the caches that it owns.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

thread_local! {
    /// Identifies this thread for its whole life; 0 until it owns a cache for the first time.
    static TOKEN: Cell<u64> = const { Cell::new(0) };
}

/// The calling thread's number, or 0 if it has none yet. No owner has the number 0.
#[inline(always)]
pub(super) fn token() -> u64 {
    TOKEN.get()
}

/// The calling thread's number. Assigns one if the thread has none yet.
pub(super) fn claim_token() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if TOKEN.get() == 0 {
        TOKEN.set(NEXT.fetch_add(1, Relaxed));
    }
    TOKEN.get()
}
