//! The memory of a GPU, ordered by one stream: allocations from the driver's pool, fills and copies.
#![allow(unsafe_code)]

mod pinned;

use std::any::Any;
use std::slice::from_raw_parts;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

use self::pinned::Pinned;
use super::driver::OwnEvent;
use super::errors::describe;
use super::known::Known;
use super::own_calls::{disown, note_own, own_call};
use super::pool::Pool;
use super::queue::{Queue, untold_stream};
use super::{GpuStream, kept};
use crate::base::error::{Error, Result};
use crate::device::Copies;
use crate::device::backend::Backend;
use crate::device::event::Event;
use crate::device::mark::Mark;

#[derive(Debug)]
pub(super) struct CudaMemory {
    queue: Queue,
    /// The streams of its GPU.
    known: Arc<Known>,
}

impl CudaMemory {
    pub(super) fn new(queue: Queue, known: Arc<Known>) -> CudaMemory {
        CudaMemory { queue, known }
    }

    #[inline]
    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    #[inline]
    pub(super) fn queue(&self) -> &Queue {
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
        Error::device_failure(self.name(), operation, describe(error))
    }

    fn name(&self) -> String {
        format!("cuda:{}", self.context().ordinal())
    }
}

// SAFETY: memory comes from the driver, which hands nothing out twice before it is freed, and is freed by `free` alone.
// A stream that was told to wait for an event begins no later work before the event's is done.
unsafe impl Backend for CudaMemory {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        self.kept_failure()?;
        let context = self.context();
        // SAFETY: this is safe to ask for any number of bytes but zero, which the engine never asks for. The queue lends the handle
        // of a live stream, and binds its context.
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
        let address = self.allocate(bytes)?;
        // The driver has it in the order of this stream alone. A failure is that of the context, with which the memory is lost.
        self.queue.synchronize().map_err(|error| self.failure("an allocation", error))?;
        Ok(address)
    }

    unsafe fn free(&self, address: u64, _bytes: usize) -> Result<()> {
        // SAFETY: the caller frees what `allocate` gave for a stream of this context, by the call that belongs to this
        // one, and frees it once. The stream has all work that uses the memory: `free_async` is ordered behind that,
        // and `free_sync` is called once all of it is done.
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
        // SAFETY: the caller gives `bytes` allocated bytes at `address`, which nothing else touches before this is
        // done. The address is a multiple of 256, and `bytes` one of the pattern's length, so that the elements are
        // aligned and lie within them. The queue lends the handle of a live stream.
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
            // The graph would read the host's pattern when it is launched.
            _ if self.is_capturing() => self.fill_by_rows(&target, pattern),
            _ => self.fill_by_doubling(&target, pattern),
        }
    }

    unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        self.kept_failure()?;
        self.refuse_in_capture("a copy from the host", "fill the array before, or copy from another array")?;
        self.call("a copy to the device", |stream| {
            // SAFETY: the caller gives `bytes` readable bytes at `from` until this returns, and as many allocated at
            // `to`, which nothing else touches before this is done. The driver reads pageable memory before it returns,
            // and pinned memory before `synchronize` below does.
            unsafe { result::memcpy_htod_async(to, from_raw_parts(from, bytes), stream) }
        })?;
        // The driver has staged pageable memory when it returns, but reads pinned memory later.
        if is_pinned(from) { self.synchronize() } else { Ok(()) }
    }

    unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        self.kept_failure()?;
        self.refuse_in_capture("a copy to the host", "read the array once the graph was launched")?;
        self.call("a copy from the device", |stream| {
            // SAFETY: the caller gives `bytes` writable bytes at `to` until this returns, and as many allocated at
            // `from`. All of them are written when `synchronize` below returns. They need not be initialised before, as
            // the driver gets a pointer and no slice.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream) }.result()
        })?;
        self.synchronize()
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        self.kept_failure()?;
        self.call("a copy on the device", |stream| {
            // SAFETY: the caller gives two allocated blocks of `bytes` bytes that do not overlap, and nothing else
            // writes either of them before this is done. Either may be pinned memory of the host, whose address is the same on
            // the device: the driver tells by the address which it is. The queue lends the handle of a live stream.
            unsafe { sys::cuMemcpyAsync(to, from, bytes, stream) }.result()
        })
    }

    fn copies(&self) -> Result<Option<Copies>> {
        let stream = untold_stream(self.context());
        let stream = stream.map_err(|error| self.failure("making a stream for copies", error))?;
        let host = Pinned::new(CudaMemory::new(Queue::held(stream.clone()), self.known.clone()));
        let device = CudaMemory::new(Queue::held(stream), self.known.clone());
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
        let pool = || self.call("asking the driver's pool", |_| Pool::of(self.context()));
        let before = pool()?;
        if before.idle() == 0 {
            return Ok(false);
        }
        self.synchronize()?;
        self.observe_others()?;
        self.call("trimming the driver's pool", |_| Pool::trim(self.context()))?;
        Ok(pool()?.holds < before.holds)
    }

    fn new_event(&self) -> Result<Arc<dyn Event>> {
        let event = OwnEvent::new(self.context()).map_err(|error| self.failure("making an event", error))?;
        Ok(Arc::new(event))
    }

    fn record(&self, event: &dyn Event) -> Result<()> {
        // Refused by the driver for an event of another context.
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
        self.queue.has_ended()
    }

    fn can_capture(&self) -> bool {
        true
    }

    fn is_capturing(&self) -> bool {
        // A stream that cannot be asked is taken to be in use by nobody's capture: its next call tells what is wrong.
        self.queue
            .capture_status()
            .is_ok_and(|status| status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    fn kept_failure(&self) -> Result<()> {
        self.context().check_err().map_err(|error| kept(self.stream(), error))
    }
}

// SAFETY: the driver answers that an event is complete once the work before its last record is done.
unsafe impl Event for OwnEvent {
    fn is_complete(&self) -> Result<bool> {
        OwnEvent::is_complete(self).or_else(|error| match error.0 {
            // In a callback of the driver nothing can be asked, and so nothing is known.
            sys::CUresult::CUDA_ERROR_NOT_PERMITTED => Ok(false),
            _ => {
                let device = format_args!("cuda:{}", self.context().ordinal()).to_string();
                Err(Error::device_failure(device, "asking for an event", describe(error)))
            }
        })
    }
}

impl Mark for OwnEvent {
    fn since(&self, earlier: &dyn Mark) -> Result<Option<Duration>> {
        let earlier: &dyn Any = earlier;
        let Some(earlier) = earlier.downcast_ref() else { return Ok(None) };
        OwnEvent::since(self, earlier).map_err(|error| {
            let device = format_args!("cuda:{}", self.context().ordinal()).to_string();
            Error::device_failure(device, "asking for the time between two events", describe(error))
        })
    }
}

fn own(event: &dyn Event) -> Result<&OwnEvent> {
    let event: &dyn Any = event;
    let foreign = || Error::device_failure("CUDA", "an event", "it is another device's");
    event.downcast_ref().ok_or_else(foreign)
}

/// How long work of other streams may take before memory that they freed is given up: longer than it takes to fill a
/// GPU, so that a last kernel ends in it, and short beside the failure that a request without memory is.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// Bytes of a block that a fill writes: those that [`Backend::fill`] was given, whose caller promises that they are
/// allocated, at a multiple of 256, as many as a multiple of the pattern's length, and that nothing else touches them
/// before the fill is done. It is made there alone.
struct Target {
    address: u64,
    bytes: usize,
}

impl CudaMemory {
    /// Waits for a bounded time until work is done that other streams were given so far. What they freed is the pool's only once a
    /// thread has waited for it: no question and no event of the context shows it to the driver, but a wait for the whole
    /// context does, which is a short one when all is done.
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

    /// A captured operation is done when the graph is launched, whatever the host's memory contains then, and nobody can
    /// wait for it before.
    fn refuse_in_capture(&self, what: &'static str, remedy: &'static str) -> Result<()> {
        match self.is_capturing() {
            true => Err(Error::unavailable(what, "the stream is captured into a graph", remedy)),
            false => Ok(()),
        }
    }

    /// Writes `pattern` as one column of words, or of bytes, for each that it has: fills are recorded as what they are.
    fn fill_by_rows(&self, target: &Target, pattern: &[u8]) -> Result<()> {
        let (pitch, rows) = (pattern.len(), target.bytes / pattern.len());
        let width = if pitch.is_multiple_of(4) { 4 } else { 1 };
        let columns = || (target.address..).step_by(width).zip(pattern.chunks_exact(width));
        self.call("a fill", |stream| {
            columns().try_for_each(|(column, element)| {
                // SAFETY: the target is `rows` rows of `pitch` bytes, and the column one element of each, a byte or an
                // aligned word: it begins before the first row ends. The queue lends the handle of a live stream.
                unsafe {
                    match *element {
                        [a, b, c, d] => {
                            sys::cuMemsetD2D32Async(column, pitch, u32::from_ne_bytes([a, b, c, d]), 1, rows, stream)
                        }
                        _ => sys::cuMemsetD2D8Async(column, pitch, element[0], 1, rows, stream),
                    }
                }
                .result()
            })
        })
    }

    /// Writes `pattern` once and doubles what is written: the driver fills with at most 4-byte patterns.
    fn fill_by_doubling(&self, target: &Target, pattern: &[u8]) -> Result<()> {
        let &Target { address, bytes } = target;
        let mut done = pattern.len().min(bytes);
        // SAFETY: `pattern` has `done` readable bytes, and the target as many at its front. From then on `[0, done)` of
        // it is written, and `[done, done + more)`, which lies behind that and within it, is not: two parts of one
        // allocation that do not overlap. Copies of one stream are done in order, so that each reads what those before
        // it wrote.
        unsafe {
            self.write(pattern.as_ptr(), address, done)?;
            while done < bytes {
                let more = done.min(bytes - done);
                self.copy(address, address + done as u64, more)?;
                done += more;
            }
        }
        Ok(())
    }
}

/// Whether host memory is pinned, so that the driver copies it behind the caller's back.
fn is_pinned(memory: *const u8) -> bool {
    let mut kind: u32 = 0;
    let mut attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    let mut place = (&raw mut kind).cast();
    // SAFETY: the driver reads one attribute and one place, both of them variables here, and writes one `unsigned int`
    // there, for which there is room. It looks the address up among those it knows and does not follow it; for any
    // other it writes zero.
    let answer = unsafe { sys::cuPointerGetAttributes(1, &mut attribute, &mut place, memory as u64) };
    answer == sys::CUresult::CUDA_SUCCESS && kind == sys::CUmemorytype::CU_MEMORYTYPE_HOST as u32
}
