//! A device by its number.

use gpucache::{Error, Result};
use gpucache_engine::device::{GpuStream, HostStream, Stream};

use crate::forks;

/// The number of the host as a device.
pub(crate) const HOST: i32 = -1;

/// The default stream of a device.
pub(crate) fn default_stream(device: i32) -> Result<Stream> {
    if device == HOST {
        return Ok(HostStream::default().stream_handle().clone());
    }
    let ordinal = usize::try_from(device).map_err(|_| {
        let what = format!("device {device}");
        Error::unavailable(what, "there is none of this number", "use -1 for the host, or a GPU's number")
    })?;
    let found = GpuStream::default_of(ordinal)?.stream_handle().clone();
    forks::watch();
    Ok(found)
}
