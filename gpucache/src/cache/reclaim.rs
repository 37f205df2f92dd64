//! Who may have memory to give, and how it is taken out of them when a device is short.
//!
//! Invariant: whoever holds memory stands in `HOLDERS`, and knows whether it does. One that is found to hold nothing is taken out, so that a walk costs by what is held and not by how many names there are.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::base::error::Result;
use crate::base::sync::{Mutex, MutexGuard};
use crate::device::Device;
use crate::range::{DeviceRange, Patience};

/// Which idle blocks to give back.
#[derive(Clone, Copy)]
pub(super) enum Idle {
    /// Those of scopes that keep a budget anyway.
    Budgeted,
    All,
}

/// Who holds memory that others may need more.
pub(super) trait Holder: Sync {
    /// Whether it has memory of this device, or may have.
    fn serves(&self, device: u64) -> bool;

    /// Gives idle blocks back to their range, where nobody else is at work with them; what it is at work with itself if that is
    /// better than to let the range grow by `need` bytes. Returns the bytes.
    fn release_idle(&self, which: Idle, need: u64) -> u64;

    /// Whether it held nothing, and need not be found any more.
    fn forget_holding(&self) -> bool;

    /// Bytes that are in use.
    fn busy_bytes(&self) -> u64;
}

type Holders = Vec<&'static dyn Holder>;

fn holders() -> MutexGuard<'static, Holders> {
    static HOLDERS: Mutex<Holders> = Mutex::new(Vec::new());
    HOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A holder has memory from now on.
#[cold]
pub(super) fn register(holder: &'static dyn Holder) {
    holders().push(holder);
}

/// Gives idle blocks of all scopes on a device back to its range, except where another thread is inside. Where a plan
/// serves an entry, its block goes back if that is better than to let the range grow by `need` bytes. Returns the bytes.
pub(super) fn release_idle(which: Idle, device: u64, need: u64) -> u64 {
    let (mut bytes, mut place) = (0, holders().len());
    // From behind: what is taken out is replaced by the last one, which was walked over already.
    while place > 0 {
        place -= 1;
        let Some(holder) = holders().get(place).copied() else { continue };
        if holder.serves(device) {
            bytes += holder.release_idle(which, need);
        }
        if holder.forget_holding() {
            let mut holders = holders();
            let same = |other: &&'static dyn Holder| std::ptr::addr_eq(*other, holder);
            if let Some(place) = holders.iter().rposition(same) {
                holders.swap_remove(place);
            }
        }
    }
    bytes
}

/// Gives pages in which no block lies back to the device, wherever they are, and returns the bytes.
///
/// Memory of a scope's arrays stays with the device's range when they are dropped, for the next entry of any scope. This
/// gives it back to the driver now, whatever scopes may need again, but for the idle blocks of `recycle = "keyed"`. It waits
/// a quarter of a second at most for the work on the device; memory that work still uses then stays: synchronize first
/// to have all of it back.
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
    let stream = device.stream_handle();
    release_idle(Idle::Budgeted, stream.memory_id(), 0);
    DeviceRange::of(stream).map_or(Ok(0), |range| range.trim(0, Patience::Some))
}

/// How much of a device is in use in scopes. One that serves several devices counts for each.
pub(super) fn busy(device: u64) -> u64 {
    let holders = holders().clone();
    holders.iter().filter(|holder| holder.serves(device)).map(|holder| holder.busy_bytes()).sum()
}

static RELEASES: AtomicU64 = AtomicU64::new(0);

/// How often idle memory was given back so far.
pub(super) fn releases() -> u64 {
    RELEASES.load(SeqCst)
}

pub(super) fn count_release(bytes: u64) {
    RELEASES.fetch_add(u64::from(bytes > 0), SeqCst);
}
