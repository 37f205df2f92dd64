//! Copies between a device's memory and the host's that run beside the work of the program's streams.
//!
//! A [`Lane`] is one queue with two streams on it: one over the device's memory, and one over memory of the host that the device
//! copies to and from by itself. A block on either side is so ordered by the rules of its own memory, and a copy is behind what
//! both sides wait for.

use std::sync::Arc;

use super::Stream;
use crate::base::error::{Error, Result};
use crate::device::memory::Memory;

/// A queue for copies in one direction.
#[derive(Debug)]
pub struct Lane {
    /// Over the device's memory.
    pub(crate) device: Stream,
    /// Over the host's.
    pub host: Stream,
}

impl Lane {
    /// A queue of its own for copies between the memory of `stream` and `host`; `None` if the device has none.
    ///
    /// # Errors
    /// What the device answered.
    pub fn new(stream: &Stream, host: &Arc<Memory>) -> Result<Option<Lane>> {
        let Some(copies) = stream.0.backend.copies()? else { return Ok(None) };
        let device = Stream::over(stream.memory().clone(), copies.device, None);
        let host = Stream::over(host.clone(), copies.host, Some(device.id()));
        Ok(Some(Lane { device, host }))
    }

    /// As [`Backend::pageable_bytes`](crate::device::Backend::pageable_bytes), of the host's memory.
    pub fn pageable_bytes(&self) -> u64 {
        self.host.0.backend.pageable_bytes()
    }

    /// The lane's stream over the memory of `stream`.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) for a stream of neither memory.
    pub(crate) fn side_of(&self, stream: &Stream) -> Result<&Stream> {
        let has = |side: &&Stream| side.memory_id() == stream.memory_id();
        [&self.device, &self.host].into_iter().find(has).ok_or_else(|| {
            Error::unavailable("a copy to the host", "the memory is another device's", "copy by way of a vector")
        })
    }
}
