//! One device: what is held of it, how its range is used, how often it was called, and how shortages ended.

use std::fmt;
use std::sync::Arc;

use crate::device::{Device, MemoryUse, OrderUse};
use crate::offload::{OffloadStats, stats_of_memory};
use gpucache_engine::base::amounts::Bytes;
use gpucache_engine::base::table::{Align, Table};
use gpucache_engine::device::Memory;
use gpucache_engine::pressure::ReclaimStats;
use gpucache_engine::range::DeviceRange;

/// How the range of a device is used, from which all scopes have their memory.
///
/// ```
/// use gpucache::{cache_scope, device::Virtual, device_stats, prelude::*};
///
/// let device = Virtual::new(1 << 30);
/// let kept = cache_scope!(ranging, { device.zeros::<u8>(1 << 20)? });
/// let range = device_stats(&device).range;
/// assert_eq!((range.reserved_bytes, range.live_bytes, range.free_bytes), (2 << 20, 1 << 20, 1 << 20)); // a page of 2 MiB
/// # drop(kept);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RangeUse {
    /// Bytes held from the device for it.
    pub reserved_bytes: u64,
    /// Bytes of blocks that scopes have of it, each rounded up to 256: arrays, what lists keep, and the arenas of plans as a whole.
    pub live_bytes: u64,
    /// Reserved, and in no block.
    pub free_bytes: u64,
    /// Of that the longest stretch side by side.
    pub longest_free_bytes: u64,
}

impl RangeUse {
    /// Which part of what is free lies apart from its longest stretch, from 0 to 1: how much less than all that is free a single
    /// array can have, unless pages move.
    ///
    /// ```
    /// use gpucache::{device::Virtual, device_stats};
    ///
    /// assert_eq!(device_stats(&Virtual::new(1 << 30)).range.fragmentation(), 0.0); // nothing is free
    /// ```
    pub fn fragmentation(&self) -> f64 {
        1.0 - self.longest_free_bytes.max(1) as f64 / self.free_bytes.max(self.longest_free_bytes).max(1) as f64
    }
}

/// What this process does with one device: all that is counted of it, read at once.
///
/// ```
/// use gpucache::{device::Virtual, device_stats, prelude::*};
///
/// let device = Virtual::new(1 << 30);
/// let outside = device.zeros::<u8>(3000)?; // of no scope
/// let stats = device_stats(&device);
/// assert_eq!((stats.memory.bytes, stats.direct_bytes, stats.range.reserved_bytes), (3000, 3000, 0));
/// println!("{stats}");
/// # drop(outside);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DeviceStats {
    /// Its number in this process, as in traces: the order in which devices came, given once.
    pub device: u64,
    /// How many bytes it has, if it tells.
    pub capacity: Option<u64>,
    /// What is held of it, and how often it gave memory and had it back.
    pub memory: MemoryUse,
    /// Held of it and not for its range: arrays of no scope, and of scopes with `recycle = "off"`.
    pub direct_bytes: u64,
    /// The range of addresses that scopes share.
    pub range: RangeUse,
    /// Events, queries and waits by which its streams are ordered.
    pub order: OrderUse,
    /// How often its memory was short, and which reclaim step served then.
    pub reclaim: ReclaimStats,
    /// Arrays that may rest on the host.
    pub offload: OffloadStats,
}

/// What this process does with a device. A reader takes the lock of the device's range for a moment, and calls no driver.
///
/// ```
/// use gpucache::{device_stats, prelude::*};
///
/// let host = Host::new();
/// assert_eq!(device_stats(&host).memory.limit, None);
/// ```
pub fn device_stats(device: &impl Device) -> DeviceStats {
    read(device.stream_handle().memory())
}

/// The same of a device's memory.
pub(crate) fn read(memory: &Arc<Memory>) -> DeviceStats {
    let range = DeviceRange::known(memory).map(|range| {
        let occupancy = range.occupancy();
        let free_bytes = occupancy.reserved.saturating_sub(occupancy.live);
        let longest_free_bytes = range.longest_free().min(free_bytes);
        RangeUse { reserved_bytes: occupancy.reserved, live_bytes: occupancy.live, free_bytes, longest_free_bytes }
    });
    let (range, used) = (range.unwrap_or_default(), memory.meter().read());
    DeviceStats {
        device: memory.id(),
        capacity: memory.capacity(),
        memory: used,
        direct_bytes: used.bytes.saturating_sub(range.reserved_bytes),
        range,
        order: memory.meter().read_order(),
        reclaim: memory.reclaim(),
        offload: stats_of_memory(memory),
    }
}

impl fmt::Display for RangeUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RangeUse { reserved_bytes, live_bytes, free_bytes, longest_free_bytes } = *self;
        write!(f, "{} reserved, {} in blocks, ", Bytes(reserved_bytes), Bytes(live_bytes))?;
        write!(f, "{} free, {} of that side by side", Bytes(free_bytes), Bytes(longest_free_bytes))
    }
}

/// A line for each matter.
impl fmt::Display for DeviceStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (head, capacity) = (format!("device {}", self.device), self.capacity.map(|bytes| Bytes(bytes).to_string()));
        let mut table = Table::new([(&*head, Align::Left), (&*capacity.unwrap_or_default(), Align::Left)]);
        let rows = [
            ("memory", self.memory.to_string()),
            ("range", self.range.to_string()),
            ("direct", Bytes(self.direct_bytes).to_string()),
            ("order", self.order.to_string()),
            ("reclaim", self.reclaim.to_string()),
        ];
        let placed = (self.offload != OffloadStats::default()).then(|| ("placed", self.offload.to_string()));
        rows.into_iter().chain(placed).for_each(|(name, text)| table.row([format!("  {name}"), text]));
        write!(f, "{table}")
    }
}
