//! The host: memory of this machine, aligned to 256 bytes.
//!
//! The default stream does its work before a call returns (`memory`). Each other stream has a thread that does its work later and in order:
//! `queued` puts the operations of `memory` on a `queue`. On Linux, `pages` maps memory for the range, and `budget` checks first whether
//! the machine has that much.
#![allow(unsafe_code)]

mod budget;
mod memory;
#[cfg(target_os = "linux")]
mod pages;
mod queue;
mod queued;

use std::sync::Arc;

pub use self::budget::host_vec;
pub(super) use self::memory::HostMemory;
use self::memory::memory;
use self::queue::{HostQueue, LentSlices};
use super::memory::Memory;
use super::stream::Stream;
use super::stream::capture::Word;
use crate::base::error::Result;
use crate::base::sync::OnceLock;

/// A stream of the host.
///
/// ```
/// use gpucache_engine::device::HostStream;
///
/// HostStream::default().stream_handle().synchronize()?; // on this stream, work is done when a call returns
/// # Ok::<(), gpucache_engine::Error>(())
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct HostStream(Stream);

impl HostStream {
    /// Starts a stream with its own thread, which does the stream's work later and in order.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if the system cannot start a thread.
    pub fn start() -> Result<HostStream> {
        static MEMORY: OnceLock<Arc<Memory>> = OnceLock::new();
        let queue = HostQueue::start()?;
        let memory = MEMORY.get_or_init(|| memory().into()).clone();
        // SAFETY: the range maps memory of this process, and streams over the same `Memory` allocate memory of this process. The work of
        // each of them can use all of it.
        let host = HostStream(unsafe { Stream::new(memory, queue) });
        if let Some(queued) = host.queued() {
            queued.report_to(host.0.downgrade());
        }
        Ok(host)
    }

    /// Makes later work of this stream wait for the work that is on `other` now. The calling thread does the work of the default stream, so
    /// that stream makes the thread wait at once.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if work of `other` itself makes the default stream wait.
    pub fn join(&self, other: &HostStream) -> Result<()> {
        self.0.note_gap_between(&other.0);
        match (self.queued(), other.queued()) {
            (Some(this), Some(other)) => this.follow(other),
            (None, Some(other)) => other.progress().finish(None)?,
            (_, None) => {}
        }
        Ok(())
    }

    /// The stream behind this handle.
    #[inline]
    pub fn stream_handle(&self) -> &Stream {
        &self.0
    }

    /// Whether work on this stream is done when a call returns.
    #[inline]
    pub fn is_synchronous(&self) -> bool {
        !self.0.runs_closures()
    }

    /// Does `work` after all work that is on the stream: on the default stream at once. The work notes what it is lent.
    pub fn push(&self, work: impl FnOnce(&LentSlices) + Send + 'static) {
        match self.queued() {
            Some(queued) => queued.push(work),
            None => work(&LentSlices::default()),
        }
    }

    /// Waits until all work that is on the stream now is done, before the caller uses the memory of `wanted`.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if work of this stream calls it while more work is queued behind, or was lent the
    /// memory already.
    pub fn finish_for(&self, wanted: Word) -> Result<()> {
        self.queued().map_or(Ok(()), |queued| queued.progress().finish(Some(wanted)))
    }

    /// Whether the stream has no work.
    pub fn is_idle(&self) -> bool {
        self.queued().is_none_or(|queued| queued.progress().is_done(queued.progress().queued()))
    }

    fn queued(&self) -> Option<&HostQueue> {
        self.0.backend()
    }
}

impl Default for HostStream {
    /// The default stream. All handles stand for the same stream, and a new handle costs nothing.
    fn default() -> HostStream {
        static STREAM: OnceLock<Stream> = OnceLock::new();
        // SAFETY: the range maps memory of this process, and `HostMemory` allocates and uses memory of this process.
        HostStream(STREAM.get_or_init(|| unsafe { Stream::new(memory().into(), HostMemory) }).clone())
    }
}

impl std::fmt::Debug for HostStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.is_synchronous() {
            true => f.write_str("host"),
            false => write!(f, "host stream {}", self.0.id()),
        }
    }
}
