//! Allocate, free, and notes of uses.

use std::ffi::c_void;

use gpucache::Error;

use super::status::{status, wrong};
use crate::{allocate, base_address, free, record_stream, stream_ends};

/// Allocates `bytes` bytes on a device, for use on a stream, and writes their address to `address`. -1 is the host; other numbers are GPUs.
/// `stream` is a handle of the driver, null for the default stream; the host ignores it. The memory comes from the thread's innermost scope.
/// The address is a multiple of 256. It is null for no bytes.
///
/// Returns `GPUCACHE_OUT_OF_MEMORY` if no memory is left, and `GPUCACHE_UNAVAILABLE` for a device that does not exist, for a stream of another
/// GPU than `device`, and for a GPU in a forked child of a process that used one. The stream must exist: a driver may end a process that passes
/// it the handle of a destroyed stream.
///
/// # Safety
/// `address` is null or points to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpucache_allocate(
    bytes: usize,
    device: i32,
    stream: *mut c_void,
    address: *mut *mut c_void,
) -> i32 {
    if address.is_null() {
        return wrong("gpucache_allocate: `address` is null: pass room for the result");
    }
    status(|| {
        let found = allocate(bytes, device, stream as usize)?;
        // SAFETY: by the contract above there is room for a pointer.
        unsafe { *address = found as *mut c_void };
        Ok(())
    })
}

/// Frees memory that `gpucache_allocate` returned, on any thread. Later work of the stream for which it was allocated may use it at once.
/// Null is ignored. Returns `GPUCACHE_UNAVAILABLE` if nothing is allocated at `address`.
#[unsafe(no_mangle)]
pub extern "C" fn gpucache_free(address: *mut c_void) -> i32 {
    status(|| free(address as u64))
}

/// Notes that work on another stream uses memory. After it is freed, its next user waits for the work that is on that stream by then.
/// Null is ignored. Returns `GPUCACHE_UNAVAILABLE` if no allocation begins at `address`. The stream must exist, as for `gpucache_allocate`.
/// A null stream is the default stream of the memory's own device. For that of another device, make a stream and record it.
#[unsafe(no_mangle)]
pub extern "C" fn gpucache_record_stream(address: *mut c_void, stream: *mut c_void) -> i32 {
    status(|| record_stream(address as u64, stream as usize))
}

/// Tells that the owner of a stream is about to destroy it. Call this before a stream is destroyed, if memory was allocated for it or
/// recorded on it. Otherwise a later call may pass the driver a handle that is no longer valid, which ends the process.
#[unsafe(no_mangle)]
pub extern "C" fn gpucache_stream_ends(device: i32, stream: *mut c_void) -> i32 {
    status(|| stream_ends(device, stream as usize))
}

/// Writes the beginning and the length of the allocation in which `address` lies.
///
/// # Safety
/// `base` and `bytes` are null or point to room for their values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpucache_base_address(
    address: *const c_void,
    base: *mut *mut c_void,
    bytes: *mut usize,
) -> i32 {
    // SAFETY: by the contract above there is room behind each pointer that is not null.
    let (base, bytes) = unsafe { (base.as_mut(), bytes.as_mut()) };
    status(|| {
        let (found, length) = base_address(address as u64).ok_or_else(|| nothing_at(address))?;
        base.into_iter().for_each(|base| *base = found as *mut c_void);
        bytes.into_iter().for_each(|bytes| *bytes = length);
        Ok(())
    })
}

fn nothing_at(address: *const c_void) -> Error {
    Error::unavailable(
        format_args!("the address {address:p}"),
        "it lies in no allocation of gpucache that is in use",
        "pass an address that gpucache_allocate returned and nobody has freed, or one behind it in the same allocation",
    )
}
