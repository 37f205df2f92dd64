//! The count of the locks that a thread holds (`base/held`), for builds with debug assertions.

use crate::base::per_thread::THREAD;

/// Counts as one lock that the calling thread holds from `enter` to `leave`.
#[derive(Debug, Default)]
pub(crate) struct Gate;

impl Gate {
    pub(super) const fn new() -> Gate {
        Gate
    }

    pub(super) fn enter(&self) {
        THREAD.with(|thread| thread.held.set(thread.held.get() + 1));
    }

    pub(super) fn leave(&self) {
        THREAD.with(|thread| thread.held.set(thread.held.get() - 1));
    }
}
