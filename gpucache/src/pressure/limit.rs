//! How much idle memory stays with a device's scopes when they are left: all that they are likely to need again, unless the
//! program shares the device with others and says less.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, Weak};

use super::reclaim::{self, Idle};
use crate::base::sync::{Mutex, MutexGuard};
use crate::device::{Device, Memory};
use crate::range::{DeviceRange, Patience};

/// Whether any device has a limit.
static IS_LIMITED: AtomicBool = AtomicBool::new(false);

type Limits = Vec<(Weak<Memory>, u64)>;

fn limits() -> MutexGuard<'static, Limits> {
    static LIMITS: Mutex<Limits> = Mutex::new(Vec::new());
    LIMITS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets scopes keep at most so many bytes of a device idle once they are left; `u64::MAX` ends that.
///
/// Whatever scopes are likely to need again stays with them otherwise, where nobody else has it: other libraries of the process
/// that allocate by themselves, or other processes. What is beyond is given back whenever a thread leaves a scope of
/// this device: pages that nothing lies in first, then what lists and plans keep, which makes the next entries ask the device
/// again. Pages that work still uses stay until a scope is left after it. A library that cannot have memory calls
/// [`trim`](crate::trim) once, and tries again.
///
/// ```
/// use gpucache::{cache_scope, device::Virtual, prelude::*};
///
/// let device = Virtual::new(1 << 30);
/// gpucache::limit_idle(&device, 4 << 20);
/// cache_scope!(step, {
///     let arrays: Vec<_> = (0..8).map(|_| Array::<u8, _>::zeros(&device, 4 << 20)).collect::<gpucache::Result<_>>()?;
///     drop(arrays);
/// });
/// assert_eq!(device.memory().bytes, 4 << 20);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn limit_idle(device: &impl Device, bytes: u64) {
    let memory = device.stream_handle().memory();
    let mut limits = limits();
    limits.retain(|(other, _)| other.upgrade().is_some_and(|other| !Arc::ptr_eq(&other, memory)));
    if bytes < u64::MAX {
        limits.push((Arc::downgrade(memory), bytes));
    }
    IS_LIMITED.store(!limits.is_empty(), Relaxed);
}

/// The thread left the outermost entry of a scope that `serves` devices.
#[inline]
pub(crate) fn left(serves: impl Fn(u64) -> bool) {
    if IS_LIMITED.load(Relaxed) {
        give_back(serves);
    }
}

#[cold]
fn give_back(serves: impl Fn(u64) -> bool) {
    // Not under the lock, as this may take some time.
    let limits = limits().clone();
    for (memory, bytes) in limits {
        let Some(memory) = memory.upgrade() else { continue };
        let device = memory.id();
        if let Some(range) = memory.known_range::<DeviceRange>()
            && serves(device)
        {
            let most = || reclaim::busy(device).saturating_add(bytes);
            let is_more = || range.occupancy().reserved > most();
            // A failure is the device's, which the next call meets as well.
            let trim = || _ = range.trim(most(), Patience::None);
            if is_more() {
                trim();
            }
            if is_more() && reclaim::release_idle(Idle::All, device, u64::MAX) > 0 {
                trim();
            }
        }
    }
}
