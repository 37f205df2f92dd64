//! The memory of a GPU in the order of one stream: allocations from the driver's pool, fills and copies.
#![allow(unsafe_code)]

mod fills;
mod pinned;

use std::any::Any;
use std::slice::from_raw_parts;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

use self::fills::Target;
use self::pinned::Pinned;
use super::driver::OwnEvent;
use super::errors::{describe, failure};
use super::known::Known;
use super::own_calls::{disown, note_own, own_call};
use super::queue::{CudaQueue, untold_stream};
use super::{GpuStream, kept, pool};
use crate::base::error::{Error, Result};
use crate::device::Copies;
use crate::device::backend::Backend;
use crate::device::event::Event;
use crate::device::mark::Mark;
use crate::device::stream::{Stream, capture::relaxed};
use crate::device::unknown::UnknownWork;

#[derive(Debug)]
pub(super) struct CudaMemory {
    queue: CudaQueue,
    /// The streams of its GPU.
    known: Arc<Known>,
    /// The context of the other GPU, if this is a queue for copies to it.
    peer: Option<Arc<CudaContext>>,
}

impl CudaMemory {
    pub(super) fn new(queue: CudaQueue, known: Arc<Known>) -> CudaMemory {
        CudaMemory { queue, known, peer: None }
    }

    /// The same, for copies from its GPU's memory to that of another GPU.
    pub(super) fn copying_to(self, peer: Arc<CudaContext>) -> CudaMemory {
        CudaMemory { peer: Some(peer), ..self }
    }

    #[inline]
    pub(super) fn known(&self) -> &Arc<Known> {
        &self.known
    }

    #[inline]
    pub(super) fn queue(&self) -> &CudaQueue {
        &self.queue
    }

    #[inline]
    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        self.queue.stream()
    }

    pub(super) fn context(&self) -> &Arc<CudaContext> {
        self.stream().context()
    }

    /// Makes a driver call on this stream's handle.
    fn call<R>(&self, operation: &'static str, call: impl Fn(sys::CUstream) -> Result<R, DriverError>) -> Result<R> {
        self.queue.run(call).map_err(|error| self.failure(operation, error))
    }

    pub(super) fn failure(&self, operation: &'static str, error: DriverError) -> Error {
        failure(self.context(), operation, error)
    }

    fn name(&self) -> String {
        format!("cuda:{}", self.context().ordinal())
    }
}

// SAFETY: memory comes from the driver, which hands out no memory twice before it is freed, and only `free` frees it. After a stream was
// told to wait for an event, it begins no later work before the event's work is done.
unsafe impl Backend for CudaMemory {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        self.kept_failure()?;
        let context = self.context();
        // SAFETY: this call is safe for any number of bytes except zero, and the engine never asks for zero bytes. The queue lends the
        // handle of a live stream and binds its context.
        let allocate = |stream| unsafe {
            match context.has_async_alloc() {
                true => result::malloc_async(stream, bytes),
                false => result::malloc_sync(bytes),
            }
        };
        let memory = own_call(|| self.queue.run(allocate));
        memory.inspect(|&address| note_own(address)).map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let short = Error::out_of_memory(self.name(), bytes, describe(error));
                match context.total_mem() {
                    Ok(capacity) => short.of_capacity(capacity as u64),
                    Err(_) => short,
                }
            }
            _ => self.failure("an allocation", error),
        })
    }

    fn allocate_for_all(&self, bytes: usize) -> Result<u64> {
        // Memory in the order of a captured stream would be the graph's, and a wait would end the capture.
        if let Some(beside) = self.beside_capture()? {
            return relaxed(|| beside.allocate_for_all(bytes));
        }
        let address = self.allocate(bytes)?;
        // The driver makes the memory usable in the order of this stream only. After a failed wait the context is lost, with the memory.
        self.queue.synchronize().map_err(|error| self.failure("an allocation", error))?;
        Ok(address)
    }

    fn beside_capture(&self) -> Result<Option<Arc<dyn Backend>>> {
        if !self.is_capturing() {
            return Ok(None);
        }
        let queue = relaxed(|| self.queue.beside()).map_err(|error| self.failure("a call beside a capture", error))?;
        Ok(Some(Arc::new(CudaMemory::new(queue, self.known.clone()))))
    }

    unsafe fn free(&self, address: u64, _bytes: usize) -> Result<()> {
        // SAFETY: the caller frees memory that `allocate` returned for a stream of this context, once. This call is the counterpart of the
        // allocating call. All work that uses the memory is on this stream: `free_async` comes after it in the stream's order, and
        // `free_sync` is called once all of it is done.
        let free = |stream| unsafe {
            match self.context().has_async_alloc() {
                true => result::free_async(address, stream),
                false => result::stream::synchronize(stream).and_then(|()| result::free_sync(address)),
            }
        };
        disown(address);
        own_call(|| self.call("a free", free))
    }

    unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()> {
        self.kept_failure()?;
        // SAFETY: the caller promises `bytes` allocated bytes at `address`, which nothing else touches before this is done. The address is
        // a multiple of 256, and `bytes` is a multiple of the pattern's length. So the elements are aligned and lie within the bytes. The
        // queue lends the handle of a live stream.
        let fill = |stream| unsafe {
            match *pattern {
                [a] => result::memset_d8_async(address, a, bytes, stream),
                [a, b] => sys::cuMemsetD16Async(address, u16::from_ne_bytes([a, b]), bytes / 2, stream).result(),
                [a, b, c, d] => {
                    sys::cuMemsetD32Async(address, u32::from_ne_bytes([a, b, c, d]), bytes / 4, stream).result()
                }
                _ => Ok(()),
            }
        };
        let target = Target { address, bytes };
        match pattern.len() {
            1 | 2 | 4 => self.call("a fill", fill),
            // A captured copy would read the host's pattern when the graph is launched.
            _ if self.is_capturing() => self.fill_by_rows(&target, pattern),
            _ => self.fill_by_doubling(&target, pattern),
        }
    }

    unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        self.kept_failure()?;
        self.refuse_in_capture("a copy from the host", "fill the array before, or copy from another array")?;
        self.call("a copy to the device", |stream| {
            // SAFETY: the caller promises `bytes` readable bytes at `from` until this returns, and `bytes` allocated bytes at `to` that
            // nothing else touches before this is done. The driver reads pageable memory before the call returns, and pinned memory before
            // `synchronize` below returns.
            unsafe { result::memcpy_htod_async(to, from_raw_parts(from, bytes), stream) }
        })?;
        // When the call returns, the driver has copied pageable memory to a buffer of its own. It reads pinned memory later.
        if is_pinned(from) { self.synchronize() } else { Ok(()) }
    }

    unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        self.kept_failure()?;
        self.refuse_in_capture("a copy to the host", "read the array once the graph was launched")?;
        self.call("a copy from the device", |stream| {
            // SAFETY: the caller promises `bytes` writable bytes at `to` until this returns, and `bytes` allocated bytes at `from`. All of
            // them are written when `synchronize` below returns. They need not be initialised before, since the driver gets a pointer and
            // no slice.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream) }.result()
        })?;
        self.synchronize()
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        self.kept_failure()?;
        let (own, peer) = (self.context().cu_ctx(), self.peer.as_ref().map(|peer| peer.cu_ctx()));
        self.call("a copy on the device", |stream| {
            // SAFETY: the caller promises two allocated blocks of `bytes` bytes that do not overlap, and that nothing else writes either of
            // them before this is done. Either may be pinned memory of the host, whose address is the same on the device: the driver
            // recognises the kind by the address. The written block may be one of the GPU of `peer`. Both contexts are alive, since
            // their objects hold references to them. The queue lends the handle of a live stream.
            let status = unsafe {
                match peer {
                    Some(peer) => sys::cuMemcpyPeerAsync(to, peer, from, own, bytes, stream),
                    None => sys::cuMemcpyAsync(to, from, bytes, stream),
                }
            };
            status.result()
        })
    }

    fn copies(&self) -> Result<Option<Copies>> {
        let stream = untold_stream(self.context());
        let stream = stream.map_err(|error| self.failure("making a stream for copies", error))?;
        let host = Pinned::new(CudaMemory::new(CudaQueue::held(stream.clone()), self.known.clone()));
        let device = CudaMemory::new(CudaQueue::held(stream), self.known.clone());
        Ok(Some(Copies { device: Arc::new(device), host: Arc::new(host) }))
    }

    fn synchronize(&self) -> Result<()> {
        self.refuse_in_capture("waiting for the stream", "wait once the graph was launched")?;
        self.queue.synchronize().map_err(|error| self.failure("waiting for the stream", error))
    }

    fn release_reserve(&self) -> Result<bool> {
        if !self.context().has_async_alloc() {
            return Ok(false);
        }
        let bytes = || self.call("asking the driver's pool", |_| pool::bytes(self.context()));
        let [held, used] = bytes()?;
        if held <= used {
            return Ok(false);
        }
        self.synchronize()?;
        self.observe_others()?;
        self.call("trimming the driver's pool", |_| pool::trim(self.context()))?;
        Ok(bytes()?[0] < held)
    }

    fn new_event(&self) -> Result<Arc<dyn Event>> {
        let event = OwnEvent::new(self.context()).map_err(|error| self.failure("making an event", error))?;
        Ok(Arc::new(event))
    }

    fn record(&self, event: &dyn Event) -> Result<()> {
        // The driver refuses an event of another context.
        self.queue.record(own(event)?.as_ref()).map_err(|error| self.failure("recording an event", error))
    }

    fn wait(&self, event: &dyn Event) -> Result<()> {
        // The event may be of another context of the GPU, or of another GPU.
        self.queue.follow(own(event)?.as_ref()).map_err(|error| self.failure("waiting for an event", error))
    }

    fn mark(&self) -> Result<Option<Box<dyn Mark>>> {
        let timed = OwnEvent::timed(self.context());
        let event = timed.map_err(|error| self.failure("making an event", error))?;
        self.queue.record(event.as_ref()).map_err(|error| self.failure("recording an event", error))?;
        Ok(Some(Box::new(event)))
    }

    fn records_for_anyone(&self) -> bool {
        // The threads of a framework work on a stream in turn. Some wait for work all the time, so nobody would record for them.
        self.queue.has_ended() || self.known.is_unordered() && !Stream::is_any_in_capture()
    }

    fn is_held_elsewhere(&self) -> bool {
        self.queue.is_held_elsewhere()
    }

    fn can_capture(&self) -> bool {
        true
    }

    fn is_capturing(&self) -> bool {
        // If the stream cannot be asked, it counts as not captured. The stream's next call reports the failure. Only an event of the context
        // stands for a stream of another thread, and that event would end the captures of other code.
        self.queue.is_captured() == Ok(true) || Stream::is_other_in_capture() && self.queue.is_elsewhere()
    }

    fn kept_failure(&self) -> Result<()> {
        self.context().check_err().map_err(|error| kept(self.stream(), error))
    }
}

// SAFETY: the driver reports an event as complete once the work before its last recording is done.
unsafe impl Event for OwnEvent {
    fn is_complete(&self) -> Result<bool> {
        OwnEvent::is_complete(self).or_else(|error| match error.0 {
            // The driver permits no query inside one of its callbacks. An event that another thread's capture got in between has no end
            // either: the next event of the stream tells instead.
            sys::CUresult::CUDA_ERROR_NOT_PERMITTED | sys::CUresult::CUDA_ERROR_CAPTURED_EVENT => Ok(false),
            _ => Err(failure(self.context(), "asking for an event", error)),
        })
    }
}

impl Mark for OwnEvent {
    fn since(&self, earlier: &dyn Mark) -> Result<Option<Duration>> {
        let earlier: &dyn Any = earlier;
        let Some(earlier) = earlier.downcast_ref() else { return Ok(None) };
        let since = OwnEvent::since(self, earlier);
        since.map_err(|error| failure(self.context(), "asking for the time between two events", error))
    }
}

fn own(event: &dyn Event) -> Result<&OwnEvent> {
    let event: &dyn Any = event;
    let foreign = || Error::device_failure("CUDA", "an event", "it is another device's");
    event.downcast_ref().ok_or_else(foreign)
}

/// The longest wait for work of other streams before the memory that they freed is given up. It is longer than a kernel that fills a GPU
/// usually takes, and short compared with the failure of a request.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

impl CudaMemory {
    /// Waits, for a limited time, until the present work of other streams is done. The pool gets memory that they freed only once a thread
    /// has waited for them. A query or an event of the context does not tell the driver that they are done. A wait for the whole context
    /// does, and it is short when all work is done.
    fn observe_others(&self) -> Result<()> {
        if self.known.all().iter().any(GpuStream::is_captured) {
            return Ok(());
        }
        self.call("waiting for a context", |_| {
            let event = OwnEvent::new(self.context())?;
            if event.record_context().is_none_or(|recorded| recorded.is_err()) {
                return Ok(());
            }
            let start = Instant::now();
            while !event.is_complete()? {
                if start.elapsed() >= LONGEST_WAIT {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            result::ctx::synchronize()
        })
    }

    /// Refuses an operation while the stream is captured. A captured operation runs when the graph is launched, with whatever the host's
    /// memory contains then, and nobody can wait for it before.
    fn refuse_in_capture(&self, what: &'static str, remedy: &'static str) -> Result<()> {
        match self.is_capturing() {
            true => Err(Error::unavailable(what, "the stream is captured into a graph", remedy)),
            false => Ok(()),
        }
    }
}

/// Whether host memory is pinned, or managed by the driver. If so, the driver copies it after the call has returned.
fn is_pinned(memory: *const u8) -> bool {
    let mut kind: u32 = 0;
    let mut attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    let mut place = (&raw mut kind).cast();
    // SAFETY: the driver reads one attribute and one address, both variables here, and writes one `unsigned int` to that address, for which
    // there is room. It looks `memory` up among the addresses that it knows and does not dereference it. For an unknown address it writes
    // zero.
    let answer = unsafe { sys::cuPointerGetAttributes(1, &mut attribute, &mut place, memory as u64) };
    answer == sys::CUresult::CUDA_SUCCESS && kind != 0
}
