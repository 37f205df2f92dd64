//! What is held of all devices together, and a limit of that.
//!
//! Invariant: the sum never exceeds the limit that was set when memory was taken: where there is one, bytes are counted in under
//! a lock, of whatever device. Without one a device's own counters are all that is touched.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, Weak};

use crate::base::error::{Error, Result};
use crate::base::shortage::Bound;
use crate::base::sync::{Mutex, MutexGuard};

/// `u64::MAX` for none.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

/// A device's part in the sum.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) held: AtomicU64,
    /// How often bytes that had been counted in were not had.
    pub(super) undone: AtomicU64,
}

type Parts = Vec<Weak<Part>>;

fn parts() -> MutexGuard<'static, Parts> {
    static PARTS: Mutex<Parts> = Mutex::new(Vec::new());
    PARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sum(parts: &Parts, of: impl Fn(&Part) -> &AtomicU64) -> u64 {
    // Virtual devices can have more than there are numbers together.
    parts.iter().filter_map(Weak::upgrade).map(|part| of(&part).load(Relaxed)).fold(0, u64::saturating_add)
}

impl Part {
    /// The part of a new device.
    pub(super) fn of_new_device() -> Arc<Part> {
        let part = Arc::default();
        let mut parts = parts();
        parts.retain(|part| part.strong_count() > 0);
        parts.push(Arc::downgrade(&part));
        part
    }
}

/// Counts bytes in by `enter`, if the process may hold so many more.
///
/// # Errors
/// [`is_out_of_memory`](Error::is_out_of_memory) if it may not, and what `enter` says.
pub(super) fn count_in(bytes: u64, enter: impl FnOnce() -> Result<()>) -> Result<()> {
    let limit = limit();
    if limit == u64::MAX {
        return enter();
    }
    let parts = parts();
    let held = sum(&parts, |part| &part.held);
    if held.checked_add(bytes).is_none_or(|sum| sum > limit) {
        return Err(over(limit, held, bytes));
    }
    enter()
}

#[cold]
fn over(limit: u64, held: u64, bytes: u64) -> Error {
    let detail = format!("{held} of the {limit} bytes that its limit allows are held, of all devices");
    let error = Error::out_of_memory("the process", usize::try_from(bytes).unwrap_or(usize::MAX), detail);
    error.of_limit(limit, Bound::Process)
}

/// How many bytes more the process may hold.
pub(super) fn room() -> u64 {
    match limit() {
        u64::MAX => u64::MAX,
        limit => limit.saturating_sub(held()),
    }
}

/// How many bytes are held of all devices.
pub(crate) fn held() -> u64 {
    sum(&parts(), |part| &part.held)
}

/// How often bytes were counted in and not had, of all devices.
pub(crate) fn undone() -> u64 {
    sum(&parts(), |part| &part.undone)
}

/// How many bytes may be held of all devices; `u64::MAX` for any number.
pub(crate) fn limit() -> u64 {
    LIMIT.load(Relaxed)
}

/// No more than so many bytes may be held of all devices from now on; `u64::MAX` ends that.
pub(crate) fn set_limit(bytes: u64) {
    LIMIT.store(bytes, Relaxed);
}
