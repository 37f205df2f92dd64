//! The whole process: its devices and its scopes.

use std::collections::HashSet;
use std::fmt;

use super::device::{self, DeviceStats};
use super::scope::{self, NamedStats};
use gpucache_engine::base::amounts::Bytes;
use gpucache_engine::base::shortage::Short;
use gpucache_engine::base::table::{Align, Table};
use gpucache_engine::cache::NamedCaches;
use gpucache_engine::device::Memory;
use gpucache_engine::home::ScopeStats;

/// All devices and scopes of the process. What other threads do meanwhile is seen at slightly different moments.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, process_stats};
///
/// let kept = cache_scope!(of_process, { Host::new().zeros::<u8>(4096)? });
/// let stats = process_stats();
/// assert!(stats.held_bytes() >= stats.scopes().busy_bytes && stats.scopes().busy_bytes >= 4096);
/// println!("{stats}");
/// # drop(kept);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ProcessStats {
    /// Devices that are there now, in the order in which they came.
    pub devices: Vec<DeviceStats>,
    /// Scopes that were ever entered, by name, but for those that are forgotten as nobody came back to them.
    pub scopes: Vec<NamedStats>,
}

/// What this process does with all its devices and scopes. A reader stops nobody for longer than it takes to look at one device or
/// one scope, and calls no driver.
///
/// ```
/// use gpucache::{prelude::*, process_stats};
///
/// let host = Host::new();
/// assert!(process_stats().devices.iter().any(|device| device.memory == host.memory()));
/// ```
pub fn process_stats() -> ProcessStats {
    let memories = Memory::every();
    // What leaves a device for the host is told with the device.
    let hosts: HashSet<u64> =
        memories.iter().filter_map(|memory| memory.known_host_side()).map(|host| host.id()).collect();
    let devices = memories.iter().filter(|memory| !hosts.contains(&memory.id())).map(device::read).collect();
    let mut scopes: Vec<NamedStats> = NamedCaches::all().iter().map(|scope| scope::read(scope)).collect();
    scopes.sort_by(|one, other| one.name.cmp(&other.name));
    ProcessStats { devices, scopes }
}

impl ProcessStats {
    /// Bytes held of all devices.
    ///
    /// ```
    /// use gpucache::{device::Virtual, prelude::*, process_stats};
    ///
    /// let before = process_stats().held_bytes();
    /// let array = Virtual::new(1 << 30).zeros::<u8>(1 << 20)?;
    /// assert_eq!(process_stats().held_bytes(), before + (1 << 20));
    /// # drop(array);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn held_bytes(&self) -> u64 {
        self.devices.iter().fold(0, |sum, device| sum.saturating_add(device.memory.bytes))
    }

    /// What all scopes did and hold. Its peaks are the sums of theirs, which need not have been at one time: those of a device are its
    /// own, in [`MemoryUse::peak_bytes`](crate::device::MemoryUse::peak_bytes).
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*, process_stats};
    ///
    /// cache_scope!(one_of_all, { Host::new().zeros::<u8>(4096)? });
    /// assert!(process_stats().scopes().allocations() >= 1);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn scopes(&self) -> ScopeStats {
        self.scopes.iter().fold(ScopeStats::default(), |mut sum, scope| {
            sum += scope.stats;
            sum
        })
    }

    /// A line for each device.
    pub(super) fn devices_table(&self) -> Table {
        let right = ["held", "at most", "limit", "reserved", "in blocks", "fragmented", "calls", "waits", "shortages"];
        let columns = right.into_iter().map(|name| (name, Align::Right));
        let mut table = Table::new(std::iter::once(("device", Align::Left)).chain(columns));
        for DeviceStats { device, memory, range, order, reclaim, .. } in &self.devices {
            table.row([
                device.to_string(),
                Bytes(memory.bytes).to_string(),
                Bytes(memory.peak_bytes).to_string(),
                memory.limit.map_or_else(|| "none".into(), |limit| Bytes(limit).to_string()),
                Bytes(range.reserved_bytes).to_string(),
                Bytes(range.live_bytes).to_string(),
                percent(range.fragmentation()),
                memory.times_taken().saturating_add(memory.times_given_back()).to_string(),
                order.waits.to_string(),
                reclaim.shortages().to_string(),
            ]);
        }
        table
    }

    /// A line for each scope.
    fn scopes_table(&self) -> Table {
        let right = ["entries", "allocations", "planned", "misses", "in use", "at most", "idle", "shortages"];
        let columns = right.into_iter().map(|name| (name, Align::Right));
        let mut table = Table::new(std::iter::once(("scope", Align::Left)).chain(columns));
        for NamedStats { name, stats, reclaim, .. } in &self.scopes {
            table.row([
                Short(name).to_string(),
                stats.entries.to_string(),
                stats.allocations().to_string(),
                percent(stats.served.planned_share()),
                stats.misses.to_string(),
                Bytes(stats.busy_bytes).to_string(),
                Bytes(stats.high_water_bytes).to_string(),
                Bytes(stats.idle_bytes).to_string(),
                reclaim.shortages().to_string(),
            ]);
        }
        table
    }
}

/// A share of 1.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// A table of devices, and one of scopes.
impl fmt::Display for ProcessStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}", self.devices_table(), self.scopes_table())
    }
}
