//! The number that identifies a caller to the caches that it owns. A caller is a thread, or what several threads share
//! ([`Caller`](super::Caller)). A thread works in its own name for its whole life, except within [`Caller::run`](super::Caller::run). Its
//! number is 0 until the thread owns a cache for the first time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::base::per_thread::THREAD;

/// The number of the caller, or 0 if the thread has none yet. No owner has the number 0.
#[inline(always)]
pub(super) fn token() -> u64 {
    THREAD.with(|thread| thread.token.get())
}

/// The number of the caller. Assigns one if the thread has none yet.
pub(super) fn claim_token() -> u64 {
    THREAD.with(|thread| {
        if thread.token.get() == 0 {
            thread.token.set(new_token());
        }
        thread.token.get()
    })
}

/// A number that no caller has had.
pub(super) fn new_token() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// The bit of the numbers of callers that threads share.
const SHARED: u64 = 1 << 62;

/// A number for a caller that threads share.
pub(super) fn new_shared_token() -> u64 {
    new_token() | SHARED
}

/// The number of a caller as people read it.
pub(super) fn plain(token: u64) -> u64 {
    token & !SHARED
}

/// Whether the thread works in the name of a caller that threads share.
pub(super) fn is_shared() -> bool {
    token() & SHARED == SHARED
}

/// Replaces the number under which the calling thread works. Returns the one before.
#[inline(always)]
pub(super) fn replace_token(token: u64) -> u64 {
    THREAD.with(|thread| thread.token.replace(token))
}
