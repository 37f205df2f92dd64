//! What is counted of memory that other crates allocate through the driver.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::counter::Counter;

/// Numbers of a cache: two that its owner writes, and one that whoever frees a block does.
#[derive(Default)]
pub struct ForeignCounters {
    served: Counter,
    passed_on: Counter,
    freed_elsewhere: AtomicU64,
}

impl ForeignCounters {
    /// For the owner: an allocation was served.
    #[inline]
    pub fn served(&self) {
        self.served.add(1);
    }

    /// For the owner: an allocation went on to the driver.
    pub fn passed_on(&self) {
        self.passed_on.add(1);
    }

    /// A block was freed on another stream than its own.
    pub(crate) fn freed_elsewhere(&self) {
        self.freed_elsewhere.fetch_add(1, Relaxed);
    }

    /// For the owner: forgets all of it.
    pub(crate) fn reset(&self) {
        self.served.set(0);
        self.passed_on.set(0);
        self.freed_elsewhere.store(0, Relaxed);
    }

    /// All three, in this order.
    pub fn read(&self) -> (u64, u64, u64) {
        (self.served.get(), self.passed_on.get(), self.freed_elsewhere.load(Relaxed))
    }
}
