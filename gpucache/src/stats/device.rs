//! One device: [`DeviceStats`].

use std::fmt;
use std::sync::Arc;

use crate::device::{DeviceKind, MemoryUse, OrderUse};
use crate::offload::{OffloadStats, stats_of_memory};
use gpucache_engine::base::amounts::Bytes;
use gpucache_engine::base::table::Table;
use gpucache_engine::device::Memory;
use gpucache_engine::pressure::ReclaimStats;
use gpucache_engine::range::DeviceRange;

/// The range of a device: the addresses from which all scopes get memory.
///
/// ```
/// use gpucache::{cache_scope, device::Virtual, prelude::*, stats};
///
/// let device = Virtual::new(1 << 30);
/// let kept = cache_scope!(ranging, { device.zeros::<u8>(1 << 20)? });
/// let range = device.stats().range;
/// assert_eq!((range.reserved_bytes, range.block_bytes, range.free_bytes), (2 << 20, 1 << 20, 1 << 20)); // a page of 2 MiB
/// # drop(kept);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RangeUse {
    /// Bytes that the range has from the device.
    pub reserved_bytes: u64,
    /// Bytes of the blocks in which scopes have arrays, idle memory of lists, and whole arenas of plans. Each block is rounded up to 256
    /// bytes.
    pub block_bytes: u64,
    /// Reserved bytes in no block.
    pub free_bytes: u64,
    /// The longest contiguous part of the free bytes.
    pub longest_free_bytes: u64,
}

impl RangeUse {
    /// The share of the free bytes outside the longest contiguous part, from 0 to 1. An array can be no larger than that part, unless
    /// gpucache moves pages.
    ///
    /// ```
    /// use gpucache::{device::Virtual, prelude::*};
    ///
    /// assert_eq!(Virtual::new(1 << 30).stats().range.fragmentation(), 0.0); // nothing is free
    /// ```
    pub fn fragmentation(&self) -> f64 {
        1.0 - self.longest_free_bytes.max(1) as f64 / self.free_bytes.max(self.longest_free_bytes).max(1) as f64
    }
}

/// The statistics of one device: its reserved memory, its range, the order of its streams, and how it served shortages.
///
/// ```
/// use gpucache::{device::Virtual, prelude::*, stats};
///
/// let device = Virtual::new(1 << 30);
/// let outside = device.zeros::<u8>(3000)?; // of no scope
/// let stats = device.stats();
/// assert_eq!((stats.memory.bytes, stats.direct_bytes, stats.range.reserved_bytes), (3000, 3000, 0));
/// println!("{stats}");
/// # drop(outside);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DeviceStats {
    /// The number of the device in this process, which traces use too. Devices are numbered in the order of their first use.
    pub device: u64,
    /// Its kind, which tables show behind the number.
    pub kind: DeviceKind,
    /// The size of the device's memory in bytes, if the device reports it.
    pub capacity: Option<u64>,
    /// The reserved memory, and how often the device gave memory or got it back.
    pub memory: MemoryUse,
    /// Reserved bytes outside of the range: arrays of no scope, and of scopes with `recycle = "off"`.
    pub direct_bytes: u64,
    /// The range, whose memory scopes share.
    pub range: RangeUse,
    /// Events, queries and waits that order its streams.
    pub order: OrderUse,
    /// How often the device was short of memory, and which reclaim step served then.
    pub reclaim: ReclaimStats,
    /// Arrays that may move to host memory.
    pub offload: OffloadStats,
}

/// The statistics of a device's memory.
pub(crate) fn of_device(memory: &Arc<Memory>) -> DeviceStats {
    // Read before the look for a range: a thread may make the range and map pages between the two, which this reading must not have yet.
    let before = MemoryUse::of(memory);
    let (range, used) = match DeviceRange::known(memory) {
        Some(range) => {
            let ([reserved_bytes, block_bytes, longest], counts) = range.read();
            let free_bytes = reserved_bytes.saturating_sub(block_bytes);
            let longest_free_bytes = longest.min(free_bytes);
            let range = RangeUse { reserved_bytes, block_bytes, free_bytes, longest_free_bytes };
            (range, MemoryUse::with(memory, counts))
        }
        None => (RangeUse::default(), before),
    };
    DeviceStats {
        device: memory.id(),
        kind: memory.kind(),
        capacity: memory.capacity(),
        memory: used,
        direct_bytes: used.bytes.saturating_sub(range.reserved_bytes),
        range,
        order: OrderUse::of(memory),
        reclaim: memory.reclaim(),
        offload: stats_of_memory(memory),
    }
}

impl fmt::Display for RangeUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RangeUse { reserved_bytes, block_bytes, free_bytes, longest_free_bytes } = *self;
        write!(f, "{} reserved, {} in blocks, ", Bytes(reserved_bytes), Bytes(block_bytes))?;
        write!(f, "{} free, {} of that contiguous", Bytes(free_bytes), Bytes(longest_free_bytes))
    }
}

/// A line for each part.
impl fmt::Display for DeviceStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = format!("device {} ({})", self.device, self.kind);
        let capacity = self.capacity.map(|bytes| Bytes(bytes).to_string());
        let mut table = Table::new(2, &[&head, &capacity.unwrap_or_default()]);
        let rows = [
            ("memory", self.memory.to_string()),
            ("range", self.range.to_string()),
            ("direct", Bytes(self.direct_bytes).to_string()),
            ("order", self.order.to_string()),
            ("reclaim", self.reclaim.to_string()),
        ];
        let offload = (self.offload != OffloadStats::default()).then(|| ("offload", self.offload.to_string()));
        rows.into_iter().chain(offload).for_each(|(name, text)| table.row([format!("  {name}"), text]));
        write!(f, "{table}")
    }
}
