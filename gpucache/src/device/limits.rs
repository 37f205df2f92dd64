//! Limits of devices and of the process, and what is reclaimed where memory is short.

use std::time::Duration;

use super::Device;
use gpucache_engine::Result;
use gpucache_engine::device::Memory;
use gpucache_engine::pressure::ReclaimStats;

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
    device.stream_handle().memory().set_limit(bytes);
}

/// Has idle memory of a device go back before this process holds more than so many bytes of it through this crate; `u64::MAX` ends
/// that.
///
/// The limit is soft: an allocation for which more would be held takes what is idle first, as with [`limit`] and
/// least recently used first, and where that does not suffice more is held. It is never refused for it, and nobody waits.
/// Plans get their blocks only within the limit, or from what is reserved already. What is idle when this is called goes back at
/// once, as far as more is held. [`ReclaimStats::beyond_soft`](crate::ReclaimStats::beyond_soft) tells how often there was too little.
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
    device.stream_handle().memory().set_soft_limit(bytes);
}

/// Lets this process hold at most so many bytes of all devices together through this crate, hosts included; `u64::MAX` ends that.
///
/// The limit is hard, as [`limit`] is, beside which it counts: an allocation beyond it is served by what is idle, on other devices
/// too, or fails with an error that tells the limit ([`Bound::Process`](crate::Bound::Process)). Where more is held already, what is
/// idle goes back at once, as much as is too much.
///
/// ```
/// use gpucache::{device::Virtual, error::Bound, prelude::*};
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
    Memory::set_process_limit(bytes);
}

/// Lets scopes keep at most so many bytes of a device idle once they are left; `u64::MAX` ends that.
///
/// Whatever scopes are likely to need again stays with them otherwise, where nobody else has it: other libraries of the process
/// that allocate by themselves, or other processes. What is beyond is given back whenever a thread leaves a scope of
/// this device: pages that nothing lies in first, then what lists and plans keep, which makes the next entries ask the device
/// again. Pages that work still uses stay until a scope is left after it. A library that cannot have memory calls
/// [`trim`] once, and tries again.
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
    device.stream_handle().memory().set_idle_limit(bytes);
}

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

/// Lets an allocation that finds no memory on the device wait for other threads to drop arrays or to leave scopes, for so long at
/// most; [`Duration::ZERO`], the default, for not at all.
///
/// It waits once nothing that is idle serves it, and before any handler of [`on_pressure`](crate::on_pressure) is called, and looks
/// again every two milliseconds at the latest. Nobody can tell whether those whom it waits for wait, in turn, for this
/// thread: then the time passes in vain, and the allocation is an error as without. A request of more than there is in all
/// does not wait, nor does one that the limit of its scope refuses.
///
/// ```
/// use std::time::Duration;
/// use gpucache::{device::Virtual, prelude::*, reclaim, stats::ReclaimStep};
///
/// let device = Virtual::new(8 << 20);
/// gpucache::allocation_timeout(&device, Duration::from_secs(10));
/// let held = device.zeros::<u8>(6 << 20)?;
/// let other = std::thread::spawn(move || {
///     std::thread::sleep(Duration::from_millis(10)); // works on it
///     drop(held);
/// });
/// let array = device.zeros::<u8>(4 << 20)?;
/// assert_eq!(reclaim(&device).failed, 0);
/// # drop(array);
/// # other.join().unwrap();
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn allocation_timeout(device: &impl Device, most: Duration) {
    device.stream_handle().memory().set_allocation_timeout(most);
}

/// Gives pages in which no block lies back to the device, wherever they are, and returns the bytes.
///
/// Memory of a scope's arrays stays with the device's range when they are dropped, for the next entry of any scope. This
/// gives it back to the driver now, whatever scopes may need again, but for the idle blocks of `recycle = "keyed"`. It waits
/// a quarter of a second at most for the work on the device; memory that work still uses then stays: synchronize first
/// to have all of it back. Memory of the host in which no array rests that left the device goes back too, and is not in the bytes.
///
/// # Errors
/// A failure of the device, or of work on it.
///
/// ```
/// use gpucache::{cache_scope, device::Virtual, prelude::*};
///
/// let device = Virtual::new(1 << 30);
/// cache_scope!(warm_up, { Array::<u8, _>::zeros(&device, 4 << 20)? });
/// assert_eq!(gpucache::trim(&device)?, 4 << 20);
/// assert_eq!(device.memory().bytes, 0);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn trim(device: &impl Device) -> Result<u64> {
    device.stream_handle().memory().trim()
}

/// How often the memory of a device was short so far, and which reclaim step served those who asked.
///
/// ```
/// use gpucache::{reclaim, device::Virtual};
///
/// assert_eq!(reclaim(&Virtual::new(1 << 30)).shortages(), 0);
/// ```
pub fn reclaim(device: &impl Device) -> ReclaimStats {
    device.stream_handle().memory().reclaim()
}
