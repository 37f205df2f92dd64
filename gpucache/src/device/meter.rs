//! Counts what is held from one device: touched at device calls only, so that it costs the warm path nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a process holds from one device through this crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Calls that took memory from the device so far: allocations, and mappings of pages.
    pub allocations: u64,
    /// Calls that gave memory back.
    pub frees: u64,
    /// Bytes held from it now, idle ones included.
    pub bytes: u64,
    /// The most bytes held at once so far.
    pub peak_bytes: u64,
}

/// The counters behind [`MemoryUse`].
#[derive(Debug, Default)]
pub(crate) struct Meter {
    allocations: AtomicU64,
    frees: AtomicU64,
    bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

impl Meter {
    pub(crate) fn allocated(&self, bytes: u64) {
        self.allocations.fetch_add(1, Relaxed);
        let held = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        self.peak_bytes.fetch_max(held, Relaxed);
    }

    pub(crate) fn freed(&self, bytes: u64) {
        self.frees.fetch_add(1, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
    }

    pub(crate) fn read(&self) -> MemoryUse {
        MemoryUse {
            allocations: self.allocations.load(Relaxed),
            frees: self.frees.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            peak_bytes: self.peak_bytes.load(Relaxed),
        }
    }
}
