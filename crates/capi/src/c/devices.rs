//! Devices by their numbers.

use std::ffi::c_char;

use gpucache::Limit;

use super::scopes::text;
use super::status::{status, wrong};
use crate::{DeviceUse, device_stats, reset_peaks, set_limit, trim};

/// Gives idle memory back to a device, except memory of scopes that another thread is inside. Each thread that allocated outside of scopes
/// is inside the scope `auto` until it ends. `gpucache_invalidate(NULL, ..)` frees that memory too: each of these threads gives it back at
/// its next allocation or free, or when it ends. Writes the number of bytes unless `bytes` is null.
///
/// # Safety
/// `bytes` is null or points to room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpucache_trim(device: i32, bytes: *mut u64) -> i32 {
    // SAFETY: by the contract above, `bytes` is null or has room.
    let bytes = unsafe { bytes.as_mut() };
    status(|| {
        let freed = trim(device)?;
        bytes.into_iter().for_each(|bytes| *bytes = freed);
        Ok(())
    })
}

/// Limits how many bytes of a device the process reserves: `"20GiB"`, a share of the device as `"80%"`, or a soft limit as `"soft 20GiB"` or
/// `"soft 80%"`. A soft limit refuses nothing: idle memory goes back first, and then the process reserves more. A device may have one hard
/// and one soft limit. `"none"` removes both, also those of `GPUCACHE_LIMIT`.
///
/// # Safety
/// `limit` is null or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpucache_set_limit(device: i32, limit: *const c_char) -> i32 {
    // SAFETY: by the contract above, `limit` is null or a text.
    let Some(limit) = (unsafe { text(limit) }) else {
        return wrong("gpucache_set_limit: `limit` is no UTF-8 text: pass one such as \"20GiB\"");
    };
    match limit.parse::<Limit>() {
        Ok(_) => status(|| set_limit(device, limit)),
        Err(error) => wrong(&format!("gpucache_set_limit: {error}")),
    }
}

/// Writes the memory of a device to `stats`.
///
/// # Safety
/// `stats` is null or points to room for the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpucache_device_stats(device: i32, stats: *mut DeviceUse) -> i32 {
    // SAFETY: by the contract above, `stats` is null or has room. All bytes are valid numbers.
    match unsafe { stats.as_mut() } {
        Some(stats) => status(|| device_stats(device).map(|used| *stats = used)),
        None => wrong("gpucache_device_stats: `stats` is null: pass room for the result"),
    }
}

/// Sets the peaks of a device to the bytes that are in use and reserved now.
#[unsafe(no_mangle)]
pub extern "C" fn gpucache_reset_peaks(device: i32) -> i32 {
    status(|| reset_peaks(device))
}
