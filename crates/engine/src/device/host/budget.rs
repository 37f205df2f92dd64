//! How much memory the machine still has for this process, asked before much of it is taken.
//!
//! Linux grants more than it has: what it granted is found missing when it is written, and then the process is ended. So
//! what would be granted in vain is refused here, with an error that a program can act on. Two bounds hold: a request
//! is not larger than what is available now, and all that is held, written or not, not larger than what the machine has.
//! Small takes pass until together they come to [`SLICE`], so that looking costs nothing beside what is taken.

use std::fs::read_to_string;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::base::error::{Error, Result};

/// So much is taken between two looks: reading the system's tables takes about 50 us, mapping as much memory some ms.
pub(super) const SLICE: u64 = 64 << 20;

/// Bytes taken and not given back.
static HELD: AtomicU64 = AtomicU64::new(0);
/// Bytes that may be taken before the next look.
static UNCHECKED: AtomicU64 = AtomicU64::new(0);

/// What a machine has, or a group of processes that is limited to less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    total: u64,
    available: u64,
}

/// Takes `bytes` into account.
///
/// # Errors
/// [`is_out_of_memory`](Error::is_out_of_memory) if there are not as many left; nothing is taken then.
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
        // A system that does not tell is left to refuse by itself.
        None => Ok(()),
    }
}

/// Takes `bytes` out of the account.
pub(super) fn give_back(bytes: u64) {
    HELD.fetch_sub(bytes, Relaxed);
}

/// How much memory the machine has without swap space, or the group of the process, if that is less.
pub(super) fn size() -> Option<u64> {
    let memory = field(&read_to_string("/proc/meminfo").ok()?, "MemTotal:")? << 10;
    Some(room().map_or(memory, |room| room.total.min(memory)))
}

/// What there is for this process, the least that anything grants it.
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

/// What `/proc/meminfo` says, memory that files would give back and swap space counted in.
fn machine(meminfo: &str) -> Option<Room> {
    let bytes = |name| field(meminfo, name).map(|kib| kib << 10);
    let swap = |name| bytes(name).unwrap_or(0);
    Some(Room {
        total: bytes("MemTotal:")? + swap("SwapTotal:"),
        available: bytes("MemAvailable:")? + swap("SwapFree:"),
    })
}

/// The group of the process in the unified hierarchy, as `/proc/self/cgroup` says.
fn group_path(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| line.strip_prefix("0::"))
}

/// What a group with a limit has; `None` for one without. Cached files are given back when there is need.
fn limited(max: &str, current: &str, stat: &str) -> Option<Room> {
    let total = max.trim().parse().ok()?;
    let current: u64 = current.trim().parse().ok()?;
    let files = field(stat, "file").unwrap_or(0);
    Some(Room { total, available: u64::saturating_sub(total, current.saturating_sub(files)) })
}

/// The number behind a name at the beginning of a line.
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
