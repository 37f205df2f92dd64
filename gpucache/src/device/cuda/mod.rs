//! NVIDIA GPUs through cudarc: [`Cuda`], the handle of one stream.
//!
//! Invariant: while a [`Stream`] of a CUDA stream lives, asking for a handle of the same context and raw stream gives
//! that one, so that equal streams share cached memory. It keeps the `CudaStream` alive, so that the driver cannot give
//! the raw handle to another stream meanwhile.
#![allow(unsafe_code)]

#[cfg(feature = "foreign")]
mod borrowed;
mod current;
mod driver;
mod errors;
mod known;
mod lent;
mod memory;
#[cfg(feature = "tracing")]
pub(crate) mod nvtx;
mod order;
mod own_calls;
mod pages;
mod pool;
mod queue;
mod unknown;

use std::sync::{Arc, PoisonError, Weak};

use cudarc::driver::{CudaContext, CudaStream, DriverError, sys::CUresult};

#[cfg(feature = "foreign")]
pub(crate) use self::borrowed::{Borrowed, Handle, host_ordered, idle_in_pool, wait_for_context_of};
#[cfg(feature = "foreign")]
pub(crate) use self::current::keeping_current;
pub(crate) use self::driver::{EventHandle, EventRef, OwnEvent};
use self::errors::describe;
use self::known::Known;
pub(crate) use self::known::{Peer, RawStream};
#[cfg(feature = "foreign")]
pub(crate) use self::lent::ended_streams;
use self::memory::CudaMemory;
#[cfg(feature = "foreign")]
pub(crate) use self::own_calls::{disown, is_own_call, is_own_memory};
use self::pages::CudaPages;
use self::queue::Queue;
use self::unknown::AnyWork;
use super::Device;
use super::memory::Memory;
use super::stream::Stream;
use crate::base::error::{Error, Result};
use crate::base::sync::Mutex;

/// A CUDA stream of one GPU, by which the arrays made through it are ordered.
///
/// ```no_run
/// use gpucache::prelude::*;
///
/// let gpu = Cuda::new(0)?;
/// let array = Array::from_slice(&gpu, 3, &[1.0f32, 2.0, 3.0])?;
/// assert_eq!(array.to_vec()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Cuda(Stream);

/// What is known of one GPU: its memory, the context that [`Cuda::new`] shares, and the streams that live.
struct Gpu {
    ordinal: usize,
    memory: Option<Arc<Memory>>,
    context: Weak<CudaContext>,
    known: Arc<Known>,
}

static GPUS: Mutex<Vec<Gpu>> = Mutex::new(Vec::new());

impl Cuda {
    /// The default stream of GPU number `ordinal`, counted from 0.
    ///
    /// Handles of one GPU share one `CudaContext`; make the handle once and lend it, as this looks it up under a lock.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) where there is no CUDA driver or no such GPU; otherwise what the driver
    /// answered.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// match Cuda::new(0) {
    ///     Ok(gpu) => println!("{gpu:?}"),
    ///     Err(error) if error.is_unavailable() => println!("no GPU: {error}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn new(ordinal: usize) -> Result<Cuda> {
        if !driver::is_present() {
            return Err(Error::unavailable(
                "CUDA",
                "the driver library libcuda was not found",
                "install the NVIDIA driver, or work on `Host::new()`",
            ));
        }
        if i32::try_from(ordinal).is_err() {
            return Err(missing(ordinal, DriverError(CUresult::CUDA_ERROR_INVALID_DEVICE)));
        }
        let context = with_gpu(ordinal, |gpu| match gpu.context.upgrade() {
            Some(context) => Ok::<_, Error>(context),
            None => {
                let context = CudaContext::new(ordinal).map_err(|error| missing(ordinal, error))?;
                gpu.context = Arc::downgrade(&context);
                Ok(context)
            }
        })?;
        Cuda::with_stream(context.default_stream())
    }

    /// A handle of `stream`, which it keeps alive. Handles of one stream share cached memory.
    ///
    /// The per-thread default stream is another stream on each thread: such a handle means that of the thread which uses it.
    /// Arrays made by it are ordered by the stream of the thread that made them, and other threads' streams are put behind that as
    /// any other stream is.
    ///
    /// # Errors
    /// What the driver answered.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let context = gpucache::cudarc::driver::CudaContext::new(0)?;
    /// let gpu = Cuda::with_stream(context.new_stream()?)?;
    /// let array = gpu.zeros::<f32>([2, 3])?; // on that stream
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn with_stream(stream: Arc<CudaStream>) -> Result<Cuda> {
        let raw = RawStream::of(&stream).of_any_thread();
        with_gpu_of(Queue::held(stream), |known, unmade| {
            let make =
                || if raw.is_per_thread() { unmade.make().by_thread(Cuda::on_this_thread) } else { unmade.make() };
            known.find_or_add(raw, make)
        })
    }

    /// The CUDA stream behind this handle.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let context = gpu.stream().context(); // cudarc's, to load modules
    /// println!("{}", context.name()?);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[inline]
    pub fn stream(&self) -> &Arc<CudaStream> {
        self.memory().stream()
    }

    #[cfg(feature = "foreign")]
    pub(crate) fn into_stream(self) -> Stream {
        self.0
    }

    #[inline]
    fn memory(&self) -> &CudaMemory {
        // SAFETY: the stream of a `Cuda` is over a `CudaMemory`. `with_stream` makes such streams, and `Known` wraps
        // and keeps no others; `from_stream_handle` is told that another `Cuda` gave its stream out.
        unsafe { self.0.backend_unchecked::<CudaMemory>() }
    }
}

// SAFETY: a transparent struct around a `Stream`, which is the one that it gives out.
#[diagnostic::do_not_recommend]
unsafe impl Device for Cuda {
    #[inline]
    fn stream_handle(&self) -> &Stream {
        &self.0
    }
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cuda:{}", self.stream().context().ordinal())
    }
}

/// The memory of a context's GPU: pages where it has virtual memory management, else chunks from the driver's pool.
fn memory_of(context: &Arc<CudaContext>, known: &Arc<Known>) -> Arc<Memory> {
    let memory = CudaPages::of(context).map_or_else(Memory::with_chunks, Memory::with_pages);
    Arc::new(memory.with_unknown_work(AnyWork::of(context, known)))
}

fn with_gpu<R>(ordinal: usize, act: impl FnOnce(&mut Gpu) -> R) -> R {
    let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
    let place = gpus.iter().position(|gpu| gpu.ordinal == ordinal).unwrap_or(gpus.len());
    if place == gpus.len() {
        gpus.push(Gpu { ordinal, memory: None, context: Weak::new(), known: Arc::default() });
    }
    act(&mut gpus[place])
}

/// A stream that is to be made over a queue. Invariant: the memory is that of the GPU which the queue is of.
struct Unmade {
    memory: Arc<Memory>,
    known: Arc<Known>,
    queue: Queue,
}

impl Unmade {
    fn make(self) -> Stream {
        // SAFETY: what is mapped of this memory is mapped for the queue's GPU, by the invariant above, and what streams of it
        // allocate lies there too, in the one address space that the process has: all of them can use it.
        unsafe { Stream::new(self.memory, CudaMemory::new(self.queue, self.known)) }
    }
}

/// Runs `act` with the streams of a queue's GPU, and one over the queue that is to be made.
fn with_gpu_of<R>(queue: Queue, act: impl FnOnce(&Known, Unmade) -> R) -> Result<R> {
    let context = queue.stream().context().clone();
    with_gpu(context.ordinal(), |gpu| {
        let memory = match &gpu.memory {
            Some(memory) => memory.clone(),
            None => {
                // What is kept would be taken for the answer what the GPU can do.
                context.check_err().map_err(|error| kept(queue.stream(), error))?;
                gpu.memory.insert(memory_of(&context, &gpu.known)).clone()
            }
        };
        let known = gpu.known.clone();
        Ok(act(&gpu.known, Unmade { memory, known, queue }))
    })
}

/// What cudarc kept in the stream's context object, for whoever can return it.
fn kept(stream: &CudaStream, error: DriverError) -> Error {
    let device = format_args!("cuda:{}", stream.context().ordinal()).to_string();
    Error::device_failure(device, "a call whose failure cudarc kept", describe(error)).deferred()
}

/// Why there is no context: a machine without such a GPU, or a driver that does not work.
fn missing(ordinal: usize, error: DriverError) -> Error {
    let remedy = match error.0 {
        CUresult::CUDA_ERROR_INVALID_DEVICE | CUresult::CUDA_ERROR_NO_DEVICE => {
            "choose one that `nvidia-smi` lists, counted from 0, or work on `Host::new()`"
        }
        _ => "see whether `nvidia-smi` works and the driver is as new as the CUDA libraries, or work on `Host::new()`",
    };
    Error::unavailable(format_args!("cuda:{ordinal}"), describe(error), remedy)
}
