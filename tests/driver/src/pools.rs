//! The device's memory pool. It keeps nothing: freed memory goes back to the device.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::answer::{Answer, Out, Status, answer};
use crate::{arena, capture, device, memory};

const POOL: usize = 0x9000_0000;
const RELEASE_THRESHOLD: c_uint = 4;

static THRESHOLD: AtomicU64 = AtomicU64::new(0);

fn known(pool: usize) -> Answer {
    if pool == POOL { Ok(()) } else { Err(Status::INVALID_VALUE) }
}

fn give(pool: &Out<usize>, device: c_int) -> Answer {
    device::known(device)?;
    if device::has_pools() { pool.put(POOL) } else { Err(Status::NOT_SUPPORTED) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetDefaultMemPool(pool: Out<usize>, device: c_int) -> Status {
    answer("cuDeviceGetDefaultMemPool", || give(&pool, device))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetMemPool(pool: Out<usize>, device: c_int) -> Status {
    answer("cuDeviceGetMemPool", || give(&pool, device))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemPoolGetAttribute(pool: usize, attribute: c_uint, value: Out<u64>) -> Status {
    const RESERVED_CURRENT: c_uint = 5;
    const USED_CURRENT: c_uint = 7;
    answer("cuMemPoolGetAttribute", || {
        known(pool)?;
        match attribute {
            RELEASE_THRESHOLD => value.put(THRESHOLD.load(Ordering::SeqCst)),
            RESERVED_CURRENT | USED_CURRENT => value.put(arena::allocated()),
            _ => Err(Status::NOT_SUPPORTED),
        }
    })
}

/// # Safety
/// `value` may be read as the attribute's type.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemPoolSetAttribute(pool: usize, attribute: c_uint, value: *const u64) -> Status {
    answer("cuMemPoolSetAttribute", || {
        known(pool)?;
        if attribute != RELEASE_THRESHOLD {
            return Err(Status::NOT_SUPPORTED);
        }
        if value.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller gives 64 bits for this attribute.
        THRESHOLD.store(unsafe { value.read() }, Ordering::SeqCst);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemPoolTrimTo(pool: usize, _bytes: usize) -> Status {
    answer("cuMemPoolTrimTo", || {
        capture::forbid_unsafe()?;
        known(pool)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocFromPoolAsync(
    address: Out<u64>,
    bytes: usize,
    pool: usize,
    stream: usize,
) -> Status {
    answer("cuMemAllocFromPoolAsync", || {
        known(pool)?;
        memory::allocate_in_order(&address, bytes, stream)
    })
}
