//! Checks how much memory the machine still has before this process takes much of it.
//!
//! Linux grants more memory than it has. When a process writes to memory that is missing, Linux kills it. So this module refuses requests
//! that the machine could not serve, with an error that a program can handle. There are two bounds. A request must not be larger than the
//! memory available now. All memory that is reserved here, written or not, must not be larger than the machine's memory. Small requests
//! pass unchecked until together they reach [`SLICE`], so the check costs little beside the allocations.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::base::amounts::Bytes;
use crate::base::error::{Error, Result};
use crate::device::machine::{Room, room};

/// The bytes taken between two checks. Reading the system's tables takes about 50 us, and mapping this much memory takes some ms.
pub(super) const SLICE: u64 = 64 << 20;

/// Bytes taken and not returned.
static HELD: AtomicU64 = AtomicU64::new(0);
/// Bytes that may be taken before the next check.
static UNCHECKED: AtomicU64 = AtomicU64::new(0);

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
            let [available, all, own] = [available, total, held - bytes].map(Bytes);
            let detail = format!("{available} of its {all} are available, and gpucache reserves {own}");
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

/// A vector in host memory with room for `len` values. It is not counted in, since it is returned to others.
///
/// # Errors
/// [`is_out_of_memory`](Error::is_out_of_memory) if the host has too little memory.
///
/// ```
/// use gpucache_engine::device::host_vec;
///
/// assert!(host_vec::<u64>(100)?.capacity() >= 100);
/// assert!(host_vec::<u64>(1 << 50).unwrap_err().is_out_of_memory());
/// # Ok::<(), gpucache_engine::Error>(())
/// ```
pub fn host_vec<T>(len: usize) -> Result<Vec<T>> {
    let bytes = len.saturating_mul(size_of::<T>());
    if bytes as u64 >= SLICE
        && let Some(Room { total, available }) = room()
        && bytes as u64 > available
    {
        let detail = format!("{} of its {} are available", Bytes(available), Bytes(total));
        return Err(Error::out_of_memory("the host", bytes, detail).of_capacity(total));
    }
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|error| Error::out_of_memory("the host", bytes, error))?;
    Ok(values)
}

/// Counts out `bytes`.
pub(super) fn give_back(bytes: u64) {
    HELD.fetch_sub(bytes, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_refused_and_nothing_is_taken() {
        let before = HELD.load(Relaxed);
        if room().is_some() {
            assert!(take(1 << 60).is_err_and(|error| error.is_out_of_memory()));
        }
        assert!(HELD.load(Relaxed) < before + (1 << 50));
    }
}
