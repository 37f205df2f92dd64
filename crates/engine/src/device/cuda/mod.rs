//! NVIDIA GPUs through cudarc: [`GpuStream`], the handle of one stream.
//!
//! A request takes this way: `memory` allocates, frees, fills and copies on a `queue`, and `pages` maps memory for the range. `order`
//! orders streams by events, which `driver` makes. `known` and `lent` find the handle of a stream, `borrowed` does so for streams of
//! other libraries. `crossing` has queues for copies between two GPUs. `unknown` waits for work whose stream nobody knows.
//!
//! Invariant: while a [`Stream`] of a CUDA stream lives, a request for a handle of the same context and raw stream returns it. So handles
//! of equal streams share cached memory. The handle keeps the `CudaStream` alive, so the driver cannot give the raw handle to another
//! stream meanwhile.
#![allow(unsafe_code)]

mod borrowed;
mod crossing;
mod current;
mod driver;
mod errors;
pub(super) mod graph;
mod graph_end;
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
mod relaxed;
mod unknown;

use std::sync::{Arc, Weak};

use cudarc::driver::{CudaContext, CudaStream, DriverError, sys::CUresult};

use self::errors::{failure, without_context};
pub(crate) use self::graph_end::GraphEnd;
use self::known::Known;
pub use self::known::Peer;
use self::known::RawStream;
use self::memory::CudaMemory;
pub(crate) use self::own_calls::disown;
use self::pages::CudaPages;
use self::queue::CudaQueue;
use super::kind::DeviceKind;
use super::memory::Memory;
use super::stream::Stream;
use crate::base::error::{Error, Result};
use crate::base::sync::{Mutex, lock};

/// A CUDA stream of one GPU.
#[derive(Clone)]
#[repr(transparent)]
pub struct GpuStream(Stream);

/// The state of one GPU: its memory, the context that default streams share, and its live streams.
struct Gpu {
    ordinal: usize,
    memory: Option<Arc<Memory>>,
    context: Weak<CudaContext>,
    known: Arc<Known>,
}

static GPUS: Mutex<Vec<Gpu>> = Mutex::new(Vec::new());

/// A handle by which another library names a stream. This crate compares handles and never dereferences them. The files that serve such
/// libraries add its functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub usize);

impl GpuStream {
    /// The default stream of GPU number `ordinal`, counted from 0.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) if there is no CUDA driver or no such GPU; otherwise the answer of the driver.
    pub fn default_of(ordinal: usize) -> Result<GpuStream> {
        if !driver::is_present() {
            return Err(Error::unavailable(
                "CUDA",
                "the driver library libcuda was not found",
                "install the NVIDIA driver, or work on `Host::new()`",
            ));
        }
        if i32::try_from(ordinal).is_err() {
            return Err(without_context(ordinal, DriverError(CUresult::CUDA_ERROR_INVALID_DEVICE)));
        }
        let context = with_gpu(ordinal, |gpu| match gpu.context.upgrade() {
            Some(context) => Ok::<_, Error>(context),
            None => {
                let context = driver::primary_context(ordinal).map_err(|error| without_context(ordinal, error))?;
                gpu.context = Arc::downgrade(&context);
                Ok(context)
            }
        })?;
        GpuStream::of(context.default_stream())
    }

    /// The handle of `stream`, which it keeps alive. The handle of the per-thread default stream means a different stream on each thread.
    ///
    /// # Errors
    /// The answer of the driver.
    pub fn of(stream: Arc<CudaStream>) -> Result<GpuStream> {
        let raw = RawStream::of(&stream).of_thread(None);
        let (known, new) = gpu_of(CudaQueue::held(stream))?;
        let make = || if raw.is_per_thread() { new().by_thread(GpuStream::on_this_thread) } else { new() };
        Ok(known.find_or_add(raw, make))
    }

    /// The stream behind this handle.
    #[inline]
    pub fn stream_handle(&self) -> &Stream {
        &self.0
    }

    /// cudarc's stream.
    #[inline]
    pub fn stream(&self) -> &Arc<CudaStream> {
        self.memory().stream()
    }

    pub(crate) fn into_stream(self) -> Stream {
        self.0
    }

    #[inline]
    fn memory(&self) -> &CudaMemory {
        // SAFETY: the stream of a `GpuStream` is over a `CudaMemory`. `gpu_of` makes only such streams, and `Known` keeps and wraps
        // no others.
        unsafe { self.0.backend_unchecked::<CudaMemory>() }
    }
}

impl std::fmt::Debug for GpuStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cuda:{}", self.stream().context().ordinal())
    }
}

/// The memory of a context's GPU: pages if the GPU has virtual memory management, otherwise chunks from the driver's pool.
fn memory_of(context: &Arc<CudaContext>, known: &Arc<Known>) -> Arc<Memory> {
    let memory = CudaPages::of(context).map_or_else(Memory::with_chunks, Memory::with_pages);
    let kind = DeviceKind::Cuda(context.ordinal());
    known.context.get_or_init(|| context.clone());
    Arc::new(memory.of_kind(kind).with_unknown_work(known.clone()))
}

fn with_gpu<R>(ordinal: usize, act: impl FnOnce(&mut Gpu) -> R) -> R {
    let mut gpus = lock(&GPUS);
    let place = gpus.iter().position(|gpu| gpu.ordinal == ordinal).unwrap_or(gpus.len());
    if place == gpus.len() {
        gpus.push(Gpu { ordinal, memory: None, context: Weak::new(), known: Arc::default() });
    }
    act(&mut gpus[place])
}

/// The streams of a queue's GPU, and a function that makes a new stream over the queue.
fn gpu_of(queue: CudaQueue) -> Result<(Arc<Known>, impl FnOnce() -> Stream)> {
    let context = queue.stream().context().clone();
    let (memory, known) = with_gpu(context.ordinal(), |gpu| -> Result<_> {
        let memory = match &gpu.memory {
            Some(memory) => memory.clone(),
            None => {
                // The queries of the GPU's features would return a failure that cudarc kept, so it is reported first.
                context.check_err().map_err(|error| kept(queue.stream(), error))?;
                gpu.memory.insert(memory_of(&context, &gpu.known)).clone()
            }
        };
        Ok((memory, gpu.known.clone()))
    })?;
    let streams = known.clone();
    // SAFETY: this memory is mapped for the queue's GPU. Streams of it allocate memory on the same GPU, in the only address space of the
    // process. So all of them can use all of it.
    Ok((known, move || unsafe { Stream::new(memory, CudaMemory::new(queue, streams)) }))
}

/// The deferred error for a failure that cudarc kept in the stream's context object.
fn kept(stream: &CudaStream, error: DriverError) -> Error {
    failure(stream.context(), "an earlier call of cudarc", error).deferred()
}
