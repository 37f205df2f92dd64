//! The machine's own memory, 256-byte aligned: a default stream whose work is done when a call returns, and streams with
//! a thread each, whose work is done later.
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
mod budget;
mod memory;
#[cfg(target_os = "linux")]
mod pages;
mod queue;
mod queued;

use std::sync::Arc;

pub(super) use self::memory::HostMemory;
use self::memory::memory;
use self::queue::Queue;
use self::queued::Queued;
use super::memory::Memory;
use super::stream::Stream;
use crate::base::error::Result;
use crate::base::sync::OnceLock;

/// How many bytes of memory this machine has, or the group of processes that is limited to less; `None` where the system is not asked.
pub(super) fn size() -> Option<u64> {
    #[cfg(target_os = "linux")]
    return budget::size();
    #[cfg(not(target_os = "linux"))]
    return None;
}

/// A stream of the host.
///
/// ```
/// use gpucache_engine::device::HostStream;
///
/// HostStream::default().stream_handle().synchronize()?; // work on it is done when a call returns
/// # Ok::<(), gpucache_engine::Error>(())
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct HostStream(Stream);

impl HostStream {
    /// Starts a stream with a thread of its own, which does its work later and in order.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if the system gives no thread.
    pub fn start() -> Result<HostStream> {
        static MEMORY: OnceLock<Arc<Memory>> = OnceLock::new();
        let queue = Queue::start()?;
        let memory = MEMORY.get_or_init(|| memory().into()).clone();
        // SAFETY: what the range maps, and what streams over the same `Memory` allocate, is memory of this process,
        // which the work of each of them can use.
        let host = HostStream(unsafe { Stream::new(memory, Queued(queue)) });
        if let Some(queued) = host.queued() {
            queued.0.report_to(host.0.downgrade());
        }
        Ok(host)
    }

    /// Makes later work of this stream wait for the work that is on `other` now. The default stream, whose work is the calling
    /// thread's, waits at once.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if work of `other` itself makes the default stream wait.
    pub fn join(&self, other: &HostStream) -> Result<()> {
        match (self.queued(), other.queued()) {
            (Some(this), Some(other)) => this.follow(other),
            (None, Some(other)) => other.0.progress().finish()?,
            (_, None) => {}
        }
        Ok(())
    }

    /// The stream behind this handle.
    #[inline]
    pub fn stream_handle(&self) -> &Stream {
        &self.0
    }

    /// Whether work is done when a call returns.
    #[inline]
    pub fn is_synchronous(&self) -> bool {
        !self.0.runs_closures()
    }

    /// Does `work` behind all that is on the stream: at once on the default one.
    pub fn push(&self, work: impl FnOnce() + Send + 'static) {
        match self.queued() {
            Some(queued) => queued.0.push(work),
            None => work(),
        }
    }

    /// Waits until all is done that is on the stream now.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) for work of the stream that has other work behind it.
    pub fn finish(&self) -> Result<()> {
        self.queued().map_or(Ok(()), |queued| queued.0.progress().finish())
    }

    /// Whether no work is on the stream.
    pub fn is_idle(&self) -> bool {
        self.queued().is_none_or(|queued| queued.0.progress().is_done(queued.0.progress().queued()))
    }

    fn queued(&self) -> Option<&Queued> {
        self.0.backend()
    }
}

impl Default for HostStream {
    /// The default stream. All handles are of the same one; making one costs nothing.
    fn default() -> HostStream {
        static STREAM: OnceLock<Stream> = OnceLock::new();
        // SAFETY: what the range maps is memory of this process, and so is what `HostMemory` allocates and works on.
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
