//! The bytes that are allocated on each device through this crate, and their peak.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed};

use gpucache_engine::cache::Block;

/// Devices with counters of their own. Devices are numbered from 0 in the order of their first use; the last counters serve all others.
const DEVICES: usize = 64;

static USAGE: [Usage; DEVICES] = [const { Usage::new() }; DEVICES];

/// The counters of one device. Each device has cache lines of its own, since threads of two devices do not meet.
#[repr(align(128))]
pub(crate) struct Usage {
    allocated_bytes: AtomicU64,
    freed_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    allocations: AtomicU64,
    frees: AtomicU64,
    out_of_memory: AtomicU64,
}

/// The memory of one device. Peaks begin anew when they are reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct DeviceUse {
    /// Bytes in use.
    pub allocated_bytes: u64,
    /// The most bytes that were in use at once.
    pub peak_allocated_bytes: u64,
    /// Bytes that the process has from the device through gpucache.
    pub reserved_bytes: u64,
    /// The most bytes that it had at once.
    pub peak_reserved_bytes: u64,
    /// Allocations so far.
    pub allocations: u64,
    /// Frees so far.
    pub frees: u64,
    /// Allocations that failed because no memory was left.
    pub out_of_memory: u64,
    /// How often the device gave memory or got it back.
    pub device_calls: u64,
    /// The bytes of all allocations so far.
    pub total_allocated_bytes: u64,
    /// The bytes of all frees so far.
    pub total_freed_bytes: u64,
}

impl Usage {
    const fn new() -> Usage {
        let [allocated_bytes, freed_bytes, peak_bytes, allocations, frees, out_of_memory] =
            [const { AtomicU64::new(0) }; 6];
        Usage { allocated_bytes, freed_bytes, peak_bytes, allocations, frees, out_of_memory }
    }

    /// The counters of the device with this number.
    #[inline]
    pub(crate) fn of(memory: u64) -> &'static Usage {
        &USAGE[(memory as usize).min(DEVICES - 1)]
    }

    #[inline]
    pub(crate) fn allocated(block: &Block) {
        let (usage, bytes) = (Usage::of(block.stream().memory_id()), block.bytes() as u64);
        let all = usage.allocated_bytes.fetch_add(bytes, Relaxed) + bytes;
        // A free may be counted in between, of memory that is counted here already.
        let now = all.saturating_sub(usage.freed_bytes.load(Relaxed));
        usage.allocations.fetch_add(1, Relaxed);
        if now > usage.peak_bytes.load(Relaxed) {
            usage.peak_bytes.fetch_max(now, Relaxed);
        }
    }

    #[inline]
    pub(crate) fn freed(block: &Block) {
        let usage = Usage::of(block.stream().memory_id());
        usage.freed_bytes.fetch_add(block.bytes() as u64, Relaxed);
        usage.frees.fetch_add(1, Relaxed);
    }

    pub(crate) fn ran_out(&self) {
        self.out_of_memory.fetch_add(1, Relaxed);
    }

    pub(crate) fn reset_peak(&self) {
        let (allocated, freed) = self.bytes();
        self.peak_bytes.store(allocated - freed, Relaxed);
    }

    /// The bytes of all allocations and of all frees. Frees are not more than allocations.
    fn bytes(&self) -> (u64, u64) {
        both(&self.allocated_bytes, &self.freed_bytes)
    }

    /// The counted part of the statistics. Each counter is read once, so that sums and differences of the figures agree.
    pub(crate) fn read(&self) -> DeviceUse {
        let (total_allocated_bytes, total_freed_bytes) = self.bytes();
        let (allocations, frees) = both(&self.allocations, &self.frees);
        let allocated_bytes = total_allocated_bytes - total_freed_bytes;
        DeviceUse {
            allocated_bytes,
            // An allocation counts its bytes before it raises the peak.
            peak_allocated_bytes: self.peak_bytes.load(Relaxed).max(allocated_bytes),
            total_allocated_bytes,
            total_freed_bytes,
            allocations,
            frees,
            out_of_memory: self.out_of_memory.load(Relaxed),
            ..DeviceUse::default()
        }
    }
}

/// Both counters. Frees come first, so that a block that comes and goes meanwhile does not count as a free without an allocation.
fn both(all: &AtomicU64, freed: &AtomicU64) -> (u64, u64) {
    let freed = freed.load(Acquire);
    let all = all.load(Relaxed);
    (all, freed.min(all))
}
