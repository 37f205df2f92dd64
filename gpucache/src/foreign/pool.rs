//! The driver's own pool, for what is allocated outside of scopes.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cudarc::driver::{result, sys};

/// Whether the pools are to keep their memory.
static KEEPS: AtomicBool = AtomicBool::new(true);
static DONE: Once = Once::new();

/// Whether the driver's pools keep what is freed outside of scopes, instead of giving it back to the device at each
/// synchronization; they do unless this says no. What they keep counts as free where a program asks how much memory there is, and
/// goes back where a request would fail otherwise.
///
/// To be called before the first allocation: later calls change the pools of all devices at once, whatever they were set to.
///
/// ```
/// gpucache::foreign::keep_pool(false); // as the driver comes
/// ```
pub fn keep_pool(keeps: bool) {
    KEEPS.store(keeps, Relaxed);
    if DONE.is_completed() {
        set(if keeps { u64::MAX } else { 0 });
    }
}

/// Has the pools keep what they have, once.
#[inline]
pub(super) fn keep() {
    if !DONE.is_completed() {
        DONE.call_once(|| {
            if KEEPS.load(Relaxed) {
                set(u64::MAX);
            }
        });
    }
}

/// Has the pool of each device keep so many bytes. A device that has none is left alone.
#[cold]
fn set(bytes: u64) {
    let Ok(devices) = result::device::get_count() else { return };
    for device in (0..devices).filter_map(|ordinal| result::device::get(ordinal).ok()) {
        let mut bytes = bytes;
        let mut pool = std::ptr::null_mut();
        // SAFETY: the driver writes the handle of the device's pool, which lives as long as the device, and then reads one 64-bit
        // number, which this measure is.
        let _ = unsafe {
            sys::cuDeviceGetDefaultMemPool(&mut pool, device).result().and_then(|()| {
                let measure = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
                sys::cuMemPoolSetAttribute(pool, measure, (&raw mut bytes).cast()).result()
            })
        };
    }
}
