//! The limits of a device: how much of it may be held at all, and how much of that may stay idle when scopes are left, where
//! the program shares the device with others and says less than scopes are likely to need again.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, Weak};

use super::reclaim;
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

/// Lets this process hold at most so many bytes of a device through this crate, in scopes and outside of them; `u64::MAX`
/// ends that.
///
/// The limit is hard: an allocation for which more would be held finds the device short of memory, as if it had no more. It
/// is served by what is idle elsewhere, or fails with an error that tells the limit
/// ([`Error::shortage`](crate::Error::shortage)). Where more is held already, what is idle goes back at once, as much as is
/// too much; arrays that are alive stay. The limit may be changed at any time.
///
/// Without a change of code the environment limits each device: `GPUCACHE_LIMIT` is read when the first handle of a device
/// is made, and is a number of bytes, with a unit or without (`20GiB`, `500MB`), or a share of the device (`80%`), which
/// counts where a device tells its size: GPUs with virtual memory management do, hosts do not. Any other text is the
/// error of the first call.
///
/// ```
/// use gpucache::{cache_scope, device::Virtual, prelude::*};
///
/// let device = Virtual::new(1 << 30);
/// cache_scope!(warm_up, { device.zeros::<u8>(64 << 20)? });
/// gpucache::limit(&device, 16 << 20);
/// assert!(device.memory().bytes <= 16 << 20);
/// assert!(device.zeros::<u8>(32 << 20).unwrap_err().is_out_of_memory());
/// gpucache::limit(&device, u64::MAX);
/// assert!(device.zeros::<u8>(32 << 20).is_ok());
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn limit(device: &impl Device, bytes: u64) {
    let memory = device.stream_handle().memory();
    memory.meter().set_limit(bytes);
    let excess = || memory.meter().held().saturating_sub(bytes);
    shrink(memory.id(), excess, || {
        // A failure is the device's, which the next call meets as well.
        let _ = memory.known_range::<DeviceRange>().map(|range| range.give_back(excess()));
    });
}

/// Has what is free given back by `trim`, and then what is idle in scopes, one after the other, until there is no `excess`.
fn shrink(device: u64, excess: impl Fn() -> u64, trim: impl Fn()) {
    if excess() > 0 {
        trim();
    }
    if excess() > 0 {
        for holder in reclaim::by_age(device, None) {
            while excess() > 0 && holder.release_some(excess()) > 0 {
                trim();
            }
        }
    }
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
            // A failure is the device's, which the next call meets as well.
            let trim = || _ = range.trim(most(), Patience::None);
            shrink(device, || range.occupancy().reserved.saturating_sub(most()), trim);
        }
    }
}
