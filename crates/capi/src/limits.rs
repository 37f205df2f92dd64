//! The memory of a device: limits, trim, statistics.

use gpucache::Result;

use crate::caller::in_scopes;
use crate::devices::default_stream;
use crate::pools::end_pools;
use crate::usage::{DeviceUse, Usage};

/// Limits how many bytes of a device the process reserves: `"20GiB"`, `"80%"`, `"soft 20GiB"` or `"soft 80%"`. `"none"` removes the hard and
/// the soft limit of the device, also those of `GPUCACHE_LIMIT`. See [`gpucache::Limit`] for all forms.
///
/// # Errors
/// For a text that is no limit, and if there is no such device.
///
/// ```
/// assert!(gpucache_capi::set_limit(-1, "a lot").is_err());
/// gpucache_capi::set_limit(-1, "none")?;
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn set_limit(device: i32, limit: &str) -> Result<()> {
    let stream = default_stream(device)?;
    // A lower limit returns idle memory to the device.
    in_scopes(|| stream.memory().set_limit(limit.parse()?))
}

/// Gives idle memory back to the device, except memory of scopes that another thread is inside. Each thread that allocated outside of scopes
/// is inside the scope `auto` until it ends. [`invalidate(None)`](crate::invalidate) frees that memory too: each of these threads gives it
/// back at its next allocation or free, or when it ends. Returns the number of bytes.
///
/// # Errors
/// A failure of the device, and if there is no such device.
///
/// ```
/// let _bytes = gpucache_capi::trim(-1)?;
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn trim(device: i32) -> Result<u64> {
    let stream = default_stream(device)?;
    end_pools();
    let (bytes, failure) = in_scopes(|| stream.memory().trim_all());
    failure.map_or(Ok(bytes), Err)
}

/// The memory of a device.
///
/// # Errors
/// If there is no such device.
///
/// ```
/// let before = gpucache_capi::device_stats(-1)?; // of the host
/// let address = gpucache_capi::allocate(4096, -1, 0)?;
/// assert_eq!(gpucache_capi::device_stats(-1)?.allocated_bytes, before.allocated_bytes + 4096);
/// gpucache_capi::free(address)?;
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn device_stats(device: i32) -> Result<DeviceUse> {
    let stream = default_stream(device)?;
    let (calls, reserved_bytes, peak_reserved_bytes) = stream.meter().read();
    Ok(DeviceUse {
        reserved_bytes,
        peak_reserved_bytes,
        device_calls: calls.iter().sum(),
        ..Usage::of(stream.memory_id()).read()
    })
}

/// How often a device gave memory, and how often it got memory back. The sum is [`DeviceUse::device_calls`].
///
/// # Errors
/// If there is no such device.
///
/// ```
/// let (gave, _got_back) = gpucache_capi::device_calls(-1)?; // of the host
/// let address = gpucache_capi::allocate(64 << 20, -1, 0)?;
/// assert!(gpucache_capi::device_calls(-1)?.0 > gave);
/// gpucache_capi::free(address)?;
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn device_calls(device: i32) -> Result<(u64, u64)> {
    let [allocations, frees, mapped, unmapped] = default_stream(device)?.meter().calls();
    Ok((allocations + mapped, frees + unmapped))
}

/// Sets the peaks of a device to the bytes that are in use and reserved now.
///
/// # Errors
/// If there is no such device.
///
/// ```
/// gpucache_capi::reset_peaks(-1)?;
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn reset_peaks(device: i32) -> Result<()> {
    let stream = default_stream(device)?;
    stream.meter().reset_peak();
    Usage::of(stream.memory_id()).reset_peak();
    Ok(())
}

/// Counts an allocation that found no memory.
pub(crate) fn count_out_of_memory(device: i32) {
    if let Ok(stream) = default_stream(device) {
        Usage::of(stream.memory_id()).ran_out();
    }
}
