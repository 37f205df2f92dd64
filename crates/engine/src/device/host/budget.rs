//! Checks how much memory the machine still has before this process takes much of it.
//!
//! Linux grants more memory than it has. When a process writes to memory that is missing, Linux kills it. So this module refuses requests
//! that the machine could not serve, with an error that a program can handle. There are two bounds. A request must not be larger than the
//! memory available now. All memory that is reserved here, written or not, must not be larger than the machine's memory. Small requests
//! pass unchecked until together they reach [`SLICE`], so the check costs little beside the allocations.

use std::fs::read_to_string;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::base::error::{Error, Result};

/// The bytes taken between two checks. Reading the system's tables takes about 50 us, and mapping this much memory takes some ms.
pub(super) const SLICE: u64 = 64 << 20;

/// Bytes taken and not returned.
static HELD: AtomicU64 = AtomicU64::new(0);
/// Bytes that may be taken before the next check.
static UNCHECKED: AtomicU64 = AtomicU64::new(0);

/// The memory of a machine, or of a group of processes with a lower limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    total: u64,
    available: u64,
}

/// Counts in `bytes`.
///
/// # Errors
/// [`is_out_of_memory`](Error::is_out_of_memory) if fewer bytes are left; nothing is counted in then.
pub(super) fn take(bytes: u64) -> Result<()> {
    let held = HELD.fetch_add(bytes, Relaxed).saturating_add(bytes);
    if UNCHECKED.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok() {
        return Ok(());
    }
    match room() {
        Some(Room { total, available }) if held > total || bytes > available => {
            give_back(bytes);
            let detail = format!("{available} of its {total} bytes are available, {} are held here", held - bytes);
            let error = Error::out_of_memory("the host", usize::try_from(bytes).unwrap_or(usize::MAX), detail);
            Err(error.of_capacity(total))
        }
        Some(Room { available, .. }) => {
            UNCHECKED.store(SLICE.min((available - bytes) / 2), Relaxed);
            Ok(())
        }
        // If the system does not report its memory, it must refuse requests itself.
        None => Ok(()),
    }
}

/// Counts out `bytes`.
pub(super) fn give_back(bytes: u64) {
    HELD.fetch_sub(bytes, Relaxed);
}

/// The memory for this process: the lowest of the machine's memory and the limits of its groups.
fn room() -> Option<Room> {
    let machine = machine(&read_to_string("/proc/meminfo").ok()?)?;
    let group = read_to_string("/proc/self/cgroup").ok().and_then(|groups| group_path(&groups).map(String::from));
    let limits = group.iter().flat_map(|group| Path::new(group).ancestors()).filter_map(|group| {
        let folder = Path::new("/sys/fs/cgroup").join(group.strip_prefix("/").unwrap_or(group));
        let read = |name: &str| read_to_string(folder.join(name)).ok();
        limited(&read("memory.max")?, &read("memory.current")?, &read("memory.stat")?)
    });
    Some(limits.fold(machine, |least, limit| Room {
        total: least.total.min(limit.total),
        available: least.available.min(limit.available),
    }))
}

/// Reads `/proc/meminfo`. Swap space counts, and so does memory of cached files that the system can free.
fn machine(meminfo: &str) -> Option<Room> {
    let bytes = |name| field(meminfo, name).map(|kib| kib << 10);
    let swap = |name| bytes(name).unwrap_or(0);
    Some(Room {
        total: bytes("MemTotal:")? + swap("SwapTotal:"),
        available: bytes("MemAvailable:")? + swap("SwapFree:"),
    })
}

/// The group of the process in the unified hierarchy, read from `/proc/self/cgroup`.
fn group_path(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| line.strip_prefix("0::"))
}

/// The memory of a group with a limit; `None` for a group without one. Cached files count as available, because the system frees them on
/// demand.
fn limited(max: &str, current: &str, stat: &str) -> Option<Room> {
    let total = max.trim().parse().ok()?;
    let current: u64 = current.trim().parse().ok()?;
    let files = field(stat, "file").unwrap_or(0);
    Some(Room { total, available: u64::saturating_sub(total, current.saturating_sub(files)) })
}

/// The number that follows a name at the beginning of a line.
fn field(table: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().map(str::split_ascii_whitespace);
    lines.find_map(|mut words| if words.next() == Some(name) { words.next()?.parse().ok() } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_what_is_available_and_swap() {
        let table =
            "MemTotal:       2048 kB\nMemFree:  100 kB\nMemAvailable: 1024 kB\nSwapTotal: 512 kB\nSwapFree: 256 kB\n";
        assert_eq!(machine(table), Some(Room { total: 2560 << 10, available: 1280 << 10 }));
        assert_eq!(machine("MemTotal: 1 kB\n"), None, "it does not say what is available");
    }

    #[test]
    fn a_group_has_its_limit_but_for_what_is_no_cached_file() {
        assert_eq!(limited("1000\n", "900\n", "anon 300\nfile 600\n"), Some(Room { total: 1000, available: 700 }));
        assert_eq!(limited("max\n", "900\n", "anon 300\n"), None);
        assert_eq!(limited("1000\n", "5000\n", ""), Some(Room { total: 1000, available: 0 }));
        assert_eq!(group_path("12:cpu:/a\n0::/user.slice/b\n"), Some("/user.slice/b"));
    }

    #[test]
    fn what_no_machine_has_is_refused_and_nothing_is_taken() {
        let before = HELD.load(Relaxed);
        if room().is_some() {
            assert!(take(1 << 60).is_err_and(|error| error.is_out_of_memory()));
        }
        assert!(HELD.load(Relaxed) < before + (1 << 50));
    }
}
