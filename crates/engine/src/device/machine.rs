//! How much memory this machine has, and the group of processes that this one belongs to, as Linux tells. Other systems have no such
//! files, and tell nothing.

use std::fs::read_to_string;
use std::path::Path;

use crate::base::sync::OnceLock;

/// The memory of a machine, or of a group of processes with a lower limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) total: u64,
    pub(super) available: u64,
}

/// How much memory the machine has without swap space, or the group of the process, if that is less.
///
/// It is read once: a limit that is a share is one of the memory at the start.
pub(super) fn size() -> Option<u64> {
    static SIZE: OnceLock<Option<u64>> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let memory = field(&read_to_string("/proc/meminfo").ok()?, "MemTotal:")? << 10;
        Some(room().map_or(memory, |room| room.total.min(memory)))
    })
}

/// The memory for this process: the lowest of the machine's memory and the limits of its groups.
pub(super) fn room() -> Option<Room> {
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
}
