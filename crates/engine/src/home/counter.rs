//! Numbers that one thread writes and all read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number with one writer: plain loads and stores, no read-modify-write.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Adds to a number from which as much is subtracted later.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    /// Adds to a total, from which nothing is subtracted: beyond the largest number it stays there.
    #[inline]
    pub(crate) fn accumulate(&self, more: u64) {
        self.set(self.get().saturating_add(more));
    }

    #[inline]
    pub(crate) fn subtract(&self, less: u64) {
        self.set(self.get().wrapping_sub(less));
    }
}
