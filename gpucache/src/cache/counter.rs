//! Numbers that one thread writes and all read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number with one writer: plain loads and stores, no read-modify-write.
#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    #[inline]
    pub(super) fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    #[inline]
    pub(super) fn subtract(&self, less: u64) {
        self.set(self.get().wrapping_sub(less));
    }
}
