//! The limits of a device: how much of it may be held at all, how much before idle memory goes back, and how much of that may stay
//! idle when scopes are left, where the program shares the device with others and says less than scopes are likely to need again.
//! And the limit of the process over all devices.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, Weak};

use super::reclaim::{self, Holder};
use crate::base::error::Result;
use crate::base::sync::{Mutex, MutexGuard};
use crate::device::{Device, Memory, process};
use crate::range::{DeviceRange, Patience, give_back_elsewhere};

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
    limit_memory(device.stream_handle().memory(), bytes);
}

/// The same of a memory that is no device's.
pub(super) fn limit_memory(memory: &Memory, bytes: u64) {
    memory.meter().set_limit(bytes);
    shrink_to(memory, bytes);
}

/// Has idle memory of a device go back as long as more than so many bytes of it are held.
fn shrink_to(memory: &Memory, bytes: u64) {
    let excess = || memory.meter().held().saturating_sub(bytes);
    shrink(
        || reclaim::by_age(memory.id(), None),
        excess,
        || {
            // A failure is the device's, which the next call meets as well.
            let _ = memory.known_range::<DeviceRange>().map(|range| range.give_back(excess()));
        },
    );
}

/// Has idle memory of a device go back before this process holds more than so many bytes of it through this crate; `u64::MAX` ends
/// that.
///
/// The limit is soft: an allocation for which more would be held takes what is idle first, as with [`limit`] and
/// least recently used first, and where that does not suffice more is held. It is never refused for it, and nobody waits.
/// Plans get their blocks only within the limit, or from what is reserved already. What is idle when this is called goes back at
/// once, as far as more is held. [`Climbs::beyond_soft`](crate::Climbs::beyond_soft) tells how often there was too little.
///
/// ```
/// use gpucache::{cache_scope, device::Virtual, prelude::*};
///
/// let device = Virtual::new(1 << 30);
/// gpucache::limit_soft(&device, 16 << 20);
/// cache_scope!(warm_up, recycle = "keyed", { device.zeros::<u8>(12 << 20)? }); // which it keeps
/// let first = cache_scope!(work, { device.zeros::<u8>(12 << 20)? }); // in its place
/// assert_eq!(device.memory().bytes, 12 << 20);
/// let second = cache_scope!(work, { device.zeros::<u8>(12 << 20)? }); // nothing is idle any more
/// assert_eq!(device.memory().bytes, 24 << 20);
/// # drop((first, second));
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn limit_soft(device: &impl Device, bytes: u64) {
    let memory = device.stream_handle().memory();
    memory.meter().set_soft_limit(bytes);
    shrink_to(memory, bytes);
}

/// Lets this process hold at most so many bytes of all devices together through this crate, hosts included; `u64::MAX` ends that.
///
/// The limit is hard, as [`limit`] is, beside which it counts: an allocation beyond it is served by what is idle, on other devices
/// too, or fails with an error that tells the limit ([`Bound::Process`](crate::Bound::Process)). Where more is held already, what is
/// idle goes back at once, as much as is too much.
///
/// ```
/// use gpucache::{Bound, device::Virtual, prelude::*};
///
/// let (first, second) = (Virtual::new(128 << 40), Virtual::new(128 << 40)); // 128 TiB each
/// gpucache::limit_process(200 << 40);
/// let array = first.zeros::<u8>(120 << 40)?;
/// let error = second.zeros::<u8>(120 << 40).unwrap_err();
/// assert_eq!(error.shortage().unwrap().bound, Bound::Process);
/// # gpucache::limit_process(u64::MAX);
/// # drop(array);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn limit_process(bytes: u64) {
    process::set_limit(bytes);
    let excess = || process::held().saturating_sub(bytes);
    let trim = || _ = give_back_elsewhere(NO_DEVICE, excess());
    shrink(reclaim::all_by_age, excess, trim);
}

/// No device has it as its id.
const NO_DEVICE: u64 = 0;

/// So much of the memory that a device has, in bytes: `0.8` is four fifths.
///
/// # Errors
/// [`is_unavailable`](crate::Error::is_unavailable) where the device does not tell how much it has, as hosts and GPUs
/// without virtual memory management do not, and for a number that is not from 0 to 1.
///
/// ```
/// use gpucache::{device::Virtual, prelude::*};
///
/// let device = Virtual::new(1000 << 20);
/// gpucache::limit(&device, gpucache::share_of(&device, 0.8)?);
/// assert_eq!(device.memory().limit, Some(800 << 20));
/// assert!(gpucache::share_of(&Host::new(), 0.5).unwrap_err().is_unavailable());
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn share_of(device: &impl Device, share: f64) -> Result<u64> {
    device.stream_handle().memory().share(share)
}

/// Has what is free given back by `trim`, and then what is idle in scopes, one after the other, until there is no `excess`.
fn shrink(holders: impl FnOnce() -> Vec<&'static dyn Holder>, excess: impl Fn() -> u64, trim: impl Fn()) {
    if excess() > 0 {
        trim();
    }
    if excess() > 0 {
        for holder in holders() {
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
    // Not by an upgrade, which might drop the memory here, under the lock.
    limits.retain(|(other, _)| other.strong_count() > 0 && !std::ptr::eq(other.as_ptr(), Arc::as_ptr(memory)));
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
            shrink(|| reclaim::by_age(device, None), || range.occupancy().reserved.saturating_sub(most()), trim);
        }
    }
}
