//! Copies between a device's memory and the host's, or another device's, that run at the same time as the program's streams.
//!
//! A [`CopyStream`] is one queue for copies with two streams on it. One is over the device's memory. The other is over host memory from
//! and to which the device copies by itself. So the rules of its own memory order the block on each side, and a copy waits for the work
//! of both blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::Stream;
use crate::base::error::{Error, Result};
use crate::device::backend::copies::Copies;
use crate::device::memory::Memory;

/// A copy stream: a queue for copies in one direction.
#[derive(Debug)]
pub struct CopyStream {
    /// The stream over the device's memory.
    pub(crate) device: Stream,
    /// The stream over the host's memory, or over the memory of the other device.
    pub host: Stream,
    /// The queue, if the device gets it back.
    queue: Option<Copies>,
    /// Whether a copy failed. The queue is then not used again.
    has_failed: AtomicBool,
}

impl CopyStream {
    /// A queue for copies between the memory of `stream` and `host`, its own host side; `None` if the device has no such queues. It may be one
    /// that another copy stream has used.
    ///
    /// # Errors
    /// The answer of the device.
    pub fn new(stream: &Stream, host: &Arc<Memory>) -> Result<Option<CopyStream>> {
        let copies = match stream.memory().take_idle_copies() {
            None => stream.0.backend.copies()?,
            idle => idle,
        };
        Ok(copies.map(|copies| {
            let mut over = CopyStream::over(stream, copies.clone(), host);
            over.queue = Some(copies);
            over
        }))
    }

    /// A queue whose two sides are the memory of `stream` and `other`.
    pub(in crate::device) fn over(stream: &Stream, copies: Copies, other: &Arc<Memory>) -> CopyStream {
        let device = Stream::over(stream.memory().clone(), copies.device, None);
        let host = Stream::over(other.clone(), copies.host, Some(device.id()));
        CopyStream { device, host, queue: None, has_failed: AtomicBool::new(false) }
    }

    /// Returns [`Backend::pageable_bytes`](crate::device::Backend::pageable_bytes) of the host's memory.
    pub fn pageable_bytes(&self) -> u64 {
        self.host.0.backend.pageable_bytes()
    }

    /// Notes that a copy failed.
    pub(crate) fn note_failure(&self) {
        self.has_failed.store(true, Relaxed);
    }

    /// The stream of this queue that is over the memory of `stream`.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) if `stream` is over neither memory.
    pub(crate) fn side_of(&self, stream: &Stream) -> Result<&Stream> {
        let has = |side: &&Stream| side.memory_id() == stream.memory_id();
        [&self.device, &self.host].into_iter().find(has).ok_or_else(|| {
            Error::unavailable("this stream for copies", "the memory is another device's", "copy by `Array::to_device`")
        })
    }
}

impl Drop for CopyStream {
    fn drop(&mut self) {
        if let Some(copies) = self.queue.take()
            && !*self.has_failed.get_mut()
        {
            self.device.memory().keep_idle_copies(copies);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Virtual;

    #[test]
    fn a_queue_is_used_again_unless_a_copy_failed() {
        let device = Virtual::new(1 << 20);
        let stream = device.stream_handle();
        let host = stream.memory().host_side().clone();
        let new = || CopyStream::new(stream, &host).ok().flatten();
        let queue = |copies: &Option<CopyStream>| copies.as_ref().map(|copies| copies.device.0.backend.clone());
        let first = new();
        let known = queue(&first);
        let is_known = |copies: &Option<CopyStream>| {
            known.iter().zip(queue(copies)).any(|(known, queue)| Arc::ptr_eq(known, &queue))
        };
        drop(first);
        let again = new();
        assert!(is_known(&again));
        again.iter().for_each(CopyStream::note_failure);
        drop(again);
        assert!(!is_known(&new()));
    }
}
