//! The driver's own pool, which serves allocations outside scopes. Also the idle memory that counts as free, beside the driver's own free
//! memory: programs choose the sizes of their caches by it.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cudarc::driver::{result, sys};

use gpucache_engine::device::Handle;
use gpucache_engine::range::DeviceRange;

/// Whether the pools keep their memory.
static KEEPS: AtomicBool = AtomicBool::new(true);
static DONE: Once = Once::new();

/// Sets whether the driver's pools keep memory that is freed outside scopes. By default they do. With `false`, they return it to the
/// device at each synchronization. Memory that they keep counts as free when a program asks for the free memory, and returns to the
/// device before a request fails.
///
/// Call this before the first allocation. A later call changes the pools of all devices at once, whatever their settings were.
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

/// Makes the pools keep their memory; only the first call does something.
#[inline]
pub(super) fn keep() {
    DONE.call_once(|| {
        if KEEPS.load(Relaxed) {
            set(u64::MAX);
        }
    });
}

/// Makes the pool of each device keep this many bytes. Devices without a pool are ignored.
#[cold]
fn set(bytes: u64) {
    let Ok(devices) = result::device::get_count() else { return };
    for device in (0..devices).filter_map(|ordinal| result::device::get(ordinal).ok()) {
        let mut bytes = bytes;
        let mut pool = std::ptr::null_mut();
        // SAFETY: the driver writes the handle of the device's pool, which lives as long as the device. Then it reads one 64-bit
        // number, which is the type of this attribute.
        let _ = unsafe {
            sys::cuDeviceGetDefaultMemPool(&mut pool, device).result().and_then(|()| {
                let measure = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
                sys::cuMemPoolSetAttribute(pool, measure, (&raw mut bytes).cast()).result()
            })
        };
    }
}

/// Bytes of the current context's device that scopes and the driver's pool keep idle, and would free on request.
pub(super) fn idle() -> usize {
    let Some(stream) = Handle(0).stream().map(|(stream, _)| stream) else { return 0 };
    let in_scopes = DeviceRange::known(stream.memory()).map_or(0, |range| {
        let (reserved, _) = range.reserved_and_live();
        reserved.saturating_sub(stream.memory().busy())
    });
    in_scopes.saturating_add(Handle::idle_in_pool(&stream)) as usize
}
