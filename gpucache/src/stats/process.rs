//! The whole process: its devices and its scopes.

use std::collections::HashSet;
use std::fmt;

use super::device::{self, DeviceStats};
use super::scope::{ScopeStats, of_scope};
use gpucache_engine::base::amounts::Bytes;
use gpucache_engine::base::shortage::Short;
use gpucache_engine::base::table::Table;
use gpucache_engine::cache::NamedCaches;
use gpucache_engine::device::Memory;

/// All devices and scopes of the process. While other threads work, the numbers are of slightly different moments.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, stats};
///
/// let kept = cache_scope!(of_process, { Host::new().zeros::<u8>(4096)? });
/// let process = stats::process();
/// let scope = process.scopes.iter().find(|scope| scope.name == "of_process").unwrap();
/// assert!(process.held_bytes() >= scope.busy_bytes && scope.busy_bytes == 4096);
/// println!("{process}");
/// # drop(kept);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ProcessStats {
    /// The devices that the process uses now, in the order of their numbers.
    pub devices: Vec<DeviceStats>,
    /// The scopes that a thread ever entered, sorted by name. While many new names come up, gpucache forgets scopes that no thread
    /// enters any more.
    pub scopes: Vec<ScopeStats>,
}

/// The statistics of all devices and scopes of the process. No lock is held for longer than it takes to read one device or one
/// scope, and no driver is called, except to ask whether timed moves of placed arrays are done.
///
/// ```
/// use gpucache::{prelude::*, stats};
///
/// let host = Host::new();
/// assert!(stats::process().devices.iter().any(|device| device.memory == host.memory()));
/// ```
pub fn process() -> ProcessStats {
    let memories = Memory::every();
    // The statistics of a device include its host memory.
    let hosts: HashSet<u64> =
        memories.iter().filter_map(|memory| memory.known_host_side()).map(|host| host.id()).collect();
    let devices = memories.iter().filter(|memory| !hosts.contains(&memory.id())).map(device::of_device).collect();
    let mut scopes: Vec<ScopeStats> = NamedCaches::all().iter().map(|scope| of_scope(scope)).collect();
    scopes.sort_by(|one, other| one.name.cmp(&other.name));
    ProcessStats { devices, scopes }
}

impl ProcessStats {
    /// The reserved memory of all devices, in bytes.
    ///
    /// ```
    /// use gpucache::{device::Virtual, prelude::*, stats};
    ///
    /// let before = stats::process().held_bytes();
    /// let array = Virtual::new(1 << 30).zeros::<u8>(1 << 20)?;
    /// assert_eq!(stats::process().held_bytes(), before + (1 << 20));
    /// # drop(array);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn held_bytes(&self) -> u64 {
        self.devices.iter().fold(0, |sum, device| sum.saturating_add(device.memory.bytes))
    }

    /// A line for each device.
    pub(super) fn devices_table(&self) -> Table {
        let mut table = Table::new(
            1,
            &["device", "held", "peak", "limit", "reserved", "in blocks", "fragmented", "calls", "waits", "shortages"],
        );
        for DeviceStats { device, kind, memory, range, order, reclaim, .. } in &self.devices {
            table.row([
                format!("{device} ({kind})"),
                Bytes(memory.bytes).to_string(),
                Bytes(memory.peak_bytes).to_string(),
                memory.limit.map_or_else(|| "none".into(), |limit| Bytes(limit).to_string()),
                Bytes(range.reserved_bytes).to_string(),
                Bytes(range.block_bytes).to_string(),
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
        let mut table = Table::new(
            1,
            &["scope", "entries", "allocations", "planned", "misses", "in use", "peak", "idle", "shortages"],
        );
        for stats in &self.scopes {
            table.row([
                Short(&stats.name).to_string(),
                stats.entries.to_string(),
                stats.allocations().to_string(),
                percent(stats.served.planned_share()),
                stats.misses.to_string(),
                Bytes(stats.busy_bytes).to_string(),
                Bytes(stats.high_water_bytes).to_string(),
                Bytes(stats.idle_bytes).to_string(),
                stats.reclaim.shortages().to_string(),
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
