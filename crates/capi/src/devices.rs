//! A device by its number.

use gpucache::{Error, Result};
use gpucache_engine::device::{GpuStream, Handle, HostStream, Stream};

use crate::forks;

/// The number of the host as a device.
pub(crate) const HOST: i32 = -1;

/// The default stream of a device. The first use of a GPU makes its context, and the same context is current afterwards as before.
pub(crate) fn default_stream(device: i32) -> Result<Stream> {
    if device == HOST {
        return Ok(HostStream::default().stream_handle().clone());
    }
    let ordinal = usize::try_from(device).map_err(|_| {
        let what = format!("device {device}");
        Error::unavailable(what, "there is none of this number", "use -1 for the host, or a GPU's number")
    })?;
    forks::refuse_gpu(ordinal)?;
    let found = Handle::keeping_current(|| GpuStream::default_of(ordinal))?.stream_handle().clone();
    forks::watch();
    Ok(found)
}

/// Makes the context of a GPU current on this thread if none is. PyTorch expects it: its own allocator's `cudaMalloc` does that too, and
/// without a context each question for the current device takes microseconds.
///
/// # Errors
/// If there is no such device.
///
/// ```
/// gpucache_capi::give_context(-1)?; // the host has none, so this does nothing
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn give_context(device: i32) -> Result<()> {
    Handle::give_context(&default_stream(device)?)
}

/// The message of an error. `on_host` says how to work on the host, in place of the engine's advice, which is Rust code.
///
/// ```
/// let error = gpucache_capi::set_limit(-1, "a lot").unwrap_err();
/// assert_eq!(gpucache_capi::message(&error, "pass device=-1"), error.to_string()); // it has no such advice
/// ```
pub fn message(error: &Error, on_host: &str) -> String {
    error.to_string().replace("work on `Host::new()`", on_host)
}
