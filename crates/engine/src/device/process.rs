//! The memory reserved from all devices together, and a limit for it.
//!
//! Invariant: the sum never exceeds the limit that was set when memory was taken. If there is a limit, bytes of every device are counted in
//! under one lock. Without a limit, only the device's own counters are touched.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use crate::base::amounts::Bytes;
use crate::base::error::{Error, Result};
use crate::base::shortage::Bound;
use crate::base::sync::{Mutex, lock};

/// `u64::MAX` if there is no limit.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

/// A device's part of the sum.
#[derive(Debug, Default)]
pub(super) struct DeviceBytes {
    pub(super) held: AtomicU64,
    /// How often bytes were counted in, and counted out because the device refused them.
    pub(super) undone: AtomicU64,
}

static PARTS: Mutex<Vec<Weak<DeviceBytes>>> = Mutex::new(Vec::new());

fn sum(parts: &[Weak<DeviceBytes>], of: impl Fn(&DeviceBytes) -> &AtomicU64) -> u64 {
    // The capacities of virtual devices may add up to more than a `u64` holds.
    parts.iter().filter_map(Weak::upgrade).map(|part| of(&part).load(Relaxed)).fold(0, u64::saturating_add)
}

impl DeviceBytes {
    /// Registers a part for a new device.
    pub(super) fn of_new_device() -> Arc<DeviceBytes> {
        let part = Arc::default();
        let mut parts = lock(&PARTS);
        parts.retain(|part| part.strong_count() > 0);
        parts.push(Arc::downgrade(&part));
        part
    }
}

/// Counts in bytes by calling `enter`, if the limit of the process allows them.
///
/// # Errors
/// [`is_out_of_memory`](Error::is_out_of_memory) if the limit does not allow them; otherwise the error of `enter`.
pub(super) fn count_in(bytes: u64, enter: impl FnOnce() -> Result<()>) -> Result<()> {
    let limit = limit();
    if limit == u64::MAX {
        return enter();
    }
    let parts = lock(&PARTS);
    let held = sum(&parts, |part| &part.held);
    if held.checked_add(bytes).is_none_or(|sum| sum > limit) {
        return Err(over(limit, held, bytes));
    }
    enter()
}

#[cold]
fn over(limit: u64, held: u64, bytes: u64) -> Error {
    let detail = format!("{} of at most {} are reserved by the process on all devices", Bytes(held), Bytes(limit));
    let error = Error::out_of_memory("the process", usize::try_from(bytes).unwrap_or(usize::MAX), detail);
    error.of_limit(limit, Bound::Process)
}

/// How many more bytes the process may reserve.
pub(crate) fn room() -> u64 {
    match limit() {
        u64::MAX => u64::MAX,
        limit => limit.saturating_sub(held()),
    }
}

/// The bytes reserved from all devices.
pub(crate) fn held() -> u64 {
    sum(&lock(&PARTS), |part| &part.held)
}

/// How often bytes were counted in and not obtained, summed over all devices.
pub(crate) fn undone() -> u64 {
    sum(&lock(&PARTS), |part| &part.undone)
}

/// The limit in bytes for all devices together; `u64::MAX` if there is none.
pub(crate) fn limit() -> u64 {
    LIMIT.load(Relaxed)
}

/// Sets the limit in bytes for all devices together; `u64::MAX` removes it.
pub(crate) fn set_limit(bytes: u64) {
    LIMIT.store(bytes, Relaxed);
}
