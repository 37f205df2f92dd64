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
use super::Device;
use super::memory::Memory;
use super::stream::Stream;
use crate::base::error::Result;
use crate::base::sync::OnceLock;

/// The machine's own memory: what a program runs on where there is no GPU, and what tests run on everywhere.
///
/// ```
/// use gpucache::prelude::*;
///
/// let mut array = Array::full(&Host::new(), [2, 3], 1.5f32)?;
/// array[0] = 4.0;
/// assert_eq!(array.iter().sum::<f32>(), 11.5);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Host(Stream);

impl Host {
    /// The default stream of the host: work on it is done when a call returns. All handles are of the same stream; making
    /// one costs nothing.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let (host, same) = (Host::new(), Host::new());
    /// let array = host.zeros::<u32>(100)?;
    /// assert!(same.memory().bytes >= 400); // of one stream
    /// # drop(array);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn new() -> Host {
        static STREAM: OnceLock<Stream> = OnceLock::new();
        // SAFETY: what the range maps is memory of this process, and so is what `HostMemory` allocates and works on.
        Host(STREAM.get_or_init(|| unsafe { Stream::new(memory().into(), HostMemory) }).clone())
    }

    /// A new stream of the host, with a thread that does its work later and in order, as a GPU's stream does:
    /// [`launch`](Host::launch) and all that writes or copies arrays is queued; what reads an array on the calling
    /// thread first waits for the stream.
    ///
    /// These streams share one memory, apart from the default stream's: no stream ever waits on a caller's thread for
    /// memory that another one freed. A panic in queued work is caught and is the error of the stream's next fallible
    /// call ([`is_panic`](crate::Error::is_panic)); the stream goes on. What that work was to write is lost: see
    /// [`launch`](Host::launch). Once no handle, array or free memory needs the stream any more, its thread finishes what
    /// is queued and ends. A process that exits does not wait for it.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if the system gives no thread.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let stream = Host::new_stream()?;
    /// let mut squares = Array::<u64, _>::zeros(&stream, 100)?;
    /// stream.launch(&mut squares, |squares| (0..).zip(squares).for_each(|(i, square)| *square = i * i))?;
    /// assert_eq!(squares[9], 81); // waits for the stream
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn new_stream() -> Result<Host> {
        static MEMORY: OnceLock<Arc<Memory>> = OnceLock::new();
        let queue = Queue::start()?;
        let memory = MEMORY.get_or_init(|| memory().into()).clone();
        // SAFETY: what the range maps, and what streams over the same `Memory` allocate, is memory of this process,
        // which the work of each of them can use.
        let host = Host(unsafe { Stream::new(memory, Queued(queue)) });
        if let Some(queued) = host.queued() {
            queued.0.report_to(host.0.downgrade());
        }
        Ok(host)
    }

    /// Makes later work of this stream wait for the work that is on `other` now. Only the default stream, whose work is
    /// the calling thread's, waits at once.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if work of `other` itself makes the default stream wait.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let (first, second) = (Host::new_stream()?, Host::new_stream()?);
    /// first.launch((), |()| println!("first"))?;
    /// second.join(&first)?;
    /// second.launch((), |()| println!("second"))?;
    /// second.synchronize()?;
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn join(&self, other: &Host) -> Result<()> {
        match (self.queued(), other.queued()) {
            (Some(this), Some(other)) => this.follow(other),
            (None, Some(other)) => other.0.progress().finish()?,
            (_, None) => {}
        }
        Ok(())
    }

    /// Whether work is done when a call returns.
    #[inline]
    pub(crate) fn is_synchronous(&self) -> bool {
        !self.0.runs_closures()
    }

    /// Does `work` behind all that is on the stream: at once on the default one.
    pub(crate) fn push(&self, work: impl FnOnce() + Send + 'static) {
        match self.queued() {
            Some(queued) => queued.0.push(work),
            None => work(),
        }
    }

    /// Waits until all is done that is on the stream now.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) for work of the stream that has other work behind it.
    pub(crate) fn finish(&self) -> Result<()> {
        self.queued().map_or(Ok(()), |queued| queued.0.progress().finish())
    }

    /// Whether no work is on the stream.
    pub(crate) fn is_idle(&self) -> bool {
        self.queued().is_none_or(|queued| queued.0.progress().is_done(queued.0.progress().queued()))
    }

    fn queued(&self) -> Option<&Queued> {
        self.0.backend()
    }
}

impl Default for Host {
    fn default() -> Host {
        Host::new()
    }
}

// SAFETY: a transparent struct around a `Stream`, which is the one that it gives out.
#[diagnostic::do_not_recommend]
unsafe impl Device for Host {
    #[inline]
    fn stream_handle(&self) -> &Stream {
        &self.0
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.is_synchronous() {
            true => f.write_str("host"),
            false => write!(f, "host stream {}", self.0.id()),
        }
    }
}
