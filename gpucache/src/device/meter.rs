//! Counts what is held from one device: touched at device calls only, so that it costs the warm path nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a process holds from one device through this crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Allocation calls that the device served so far.
    pub allocations: u64,
    /// Bytes held from it now, idle ones included.
    pub bytes: u64,
    /// The most bytes held at once so far.
    pub peak_bytes: u64,
}

/// The counters behind [`MemoryUse`]; the streams of one device share one.
#[derive(Debug, Default)]
pub struct Meter {
    allocations: AtomicU64,
    bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

impl Meter {
    pub(crate) fn allocated(&self, bytes: usize) {
        self.allocations.fetch_add(1, Relaxed);
        let held = self.bytes.fetch_add(bytes as u64, Relaxed) + bytes as u64;
        self.peak_bytes.fetch_max(held, Relaxed);
    }

    pub(crate) fn freed(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes as u64, Relaxed);
    }

    pub(crate) fn read(&self) -> MemoryUse {
        MemoryUse {
            allocations: self.allocations.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            peak_bytes: self.peak_bytes.load(Relaxed),
        }
    }
}
