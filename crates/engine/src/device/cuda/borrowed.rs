//! Finds the streams behind the handles that other libraries pass to the driver.
//!
//! Default streams live as long as their context or their thread. The owner of any other stream may destroy it at any time. The handle of
//! such a stream gets one [`Stream`] here when it is first seen. The stream stays until its owner destroys it ([`Handle::ends`]), or until
//! the driver reports another id for the handle, which then means another stream.
//!
//! Only the contexts of devices (primary contexts) are served, since cudarc uses these. They are kept as long as the process lives.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, result, sys};
use hashbrown::HashMap;

use super::driver::driver_calls;
use super::lent::note_end;
use super::memory::CudaMemory;
use super::queue::{CudaQueue, lasting_stream};
use super::{GpuStream, Handle, driver, gpu_of, pool};
use crate::base::error::Result;
use crate::base::sync::{LazyLock, Mutex, lock};
use crate::device::stream::Stream;

/// A stream, and the id that distinguishes it from a later stream with the same handle. There is none for a stream that was first seen while
/// it was captured, and where the driver reports none.
type Borrowed = (Stream, Option<u64>);

/// Whether this is the stream with this id. A stream without an id gets it.
fn is_same(known: &mut Borrowed, id: Option<u64>) -> bool {
    known.1 = known.1.or(id);
    known.1 == id
}

/// Whether a stream is of this context. That of a stream that was first seen while it was captured was a guess.
fn is_of(stream: &Stream, context: &Arc<CudaContext>) -> bool {
    stream.backend::<CudaMemory>().is_some_and(|memory| memory.queue().stream().context().cu_ctx() == context.cu_ctx())
}

impl Handle {
    /// Whether the handle means the default stream of the current context.
    pub(crate) fn is_default(self) -> bool {
        self.0 <= 1
    }

    /// Whether the handle means a different stream on each thread.
    pub(crate) fn is_per_thread(self) -> bool {
        self.0 == 2
    }

    /// Whether the meaning of the handle depends on the current context.
    pub fn is_of_context(self) -> bool {
        self.is_default() || self.is_per_thread()
    }

    fn raw(self) -> sys::CUstream {
        self.0 as sys::CUstream
    }

    /// The driver's number of the stream. `None` for default streams, whose handles never mean another stream of their context, and for
    /// drivers that do not report ids.
    fn id(self) -> Option<u64> {
        let calls = calls().filter(|_| !self.is_of_context())?;
        let mut id = 0;
        // SAFETY: another library passes the handle to the driver for a call now, so the stream is alive. The driver writes one number, for
        // which there is room.
        let told = unsafe { (calls.get_id)(self.raw(), &mut id) };
        (told == sys::CUresult::CUDA_SUCCESS).then_some(id)
    }

    /// Whether a graph is captured on the stream. The driver answers no other question about such a stream, and ends the capture.
    fn is_captured(self) -> bool {
        // SAFETY: as in `id`, the stream is alive. The handle of a default stream means that of the current context.
        let status = unsafe { result::stream::is_capturing(self.raw()) };
        !self.is_of_context()
            && status.is_ok_and(|status| status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// The context of the stream.
    fn context(self) -> Option<Arc<CudaContext>> {
        let mut context = std::ptr::null_mut();
        // SAFETY: another library passes the handle to the driver now, so its stream is alive. For a default stream the handle is not
        // passed on, and the driver is asked for the current context. In both cases it writes one pointer, for which there is room.
        let answer = unsafe {
            match self.is_of_context() {
                true => sys::cuCtxGetCurrent(&mut context),
                false => sys::cuStreamGetCtx(self.raw(), &mut context),
            }
        };
        let is_known = answer == sys::CUresult::CUDA_SUCCESS && !context.is_null();
        if is_known { served_context(context) } else { None }
    }

    /// The stream that the handle means on this thread now, and the id that distinguishes it from a later stream with this handle. `None`
    /// if its context is not served.
    pub fn stream(self) -> Option<Borrowed> {
        if self.is_of_context() {
            let context = self.context()?;
            let handle = match self.is_default() {
                true => GpuStream::of(context.default_stream()),
                false => GpuStream::of_this_thread(&context.per_thread_stream()),
            };
            return Some((handle.ok()?.into_stream(), None));
        }
        if self.is_captured() {
            return lock(&BORROWED).get(&self.0).cloned();
        }
        let (id, context) = (self.id(), self.context()?);
        let is_meant = |known: &mut Borrowed| is_of(&known.0, &context) && is_same(known, id);
        let known = lock(&BORROWED).get_mut(&self.0).and_then(|known| is_meant(known).then(|| known.clone()));
        known.or_else(|| self.take_in(id, context))
    }

    /// As [`stream`](Handle::stream). Handles of default streams mean those of the device of `default`, whichever context is current.
    pub fn stream_of(self, default: &Stream) -> Option<Borrowed> {
        match () {
            () if self.is_default() => Some((default.clone(), None)),
            () if self.is_per_thread() => {
                let context = default.backend::<CudaMemory>()?.queue().stream().context();
                let own = GpuStream::of_this_thread(&context.per_thread_stream()).ok()?;
                Some((own.into_stream(), None))
            }
            () => self.stream(),
        }
    }

    /// The stream that the handle means, if a graph may be captured on it. `default` is a stream of the same device. If this crate sees the
    /// handle for the first time, it learns the stream's id later.
    pub fn stream_in_capture(self, default: &Stream) -> Option<Stream> {
        if !self.is_captured() {
            return self.stream().map(|(stream, _)| stream);
        }
        if let Some((known, _)) = lock(&BORROWED).get(&self.0) {
            return Some(known.clone());
        }
        let context = default.backend::<CudaMemory>()?.queue().stream().context().clone();
        self.take_in(None, context).map(|(stream, _)| stream)
    }

    fn take_in(self, id: Option<u64>, context: Arc<CudaContext>) -> Option<Borrowed> {
        // SAFETY: the driver, or who captures the stream, says that the stream is of this context. It is alive, since it is passed to the
        // driver now. Later uses of the handle go through a lent queue, which is told before the stream ends.
        let stream = unsafe { context.wrap_borrowed_stream(self.raw()) };
        let new = (lent(stream)?, id);
        let past = {
            let mut known = lock(&BORROWED);
            // Another thread may have registered it meanwhile. Two streams over one handle would not know of each other's work.
            if let Some(known) = known.get(&self.0).filter(|known| known.1 == id) {
                return Some(known.clone());
            }
            known.insert(self.0, new.clone())
        };
        if let Some((past, _)) = past
            && let Some(memory) = past.backend::<CudaMemory>()
        {
            memory.queue().has_been_ended();
        }
        Some(new)
    }

    /// Whether the handle still means the stream with this id.
    pub fn is_still(self, id: Option<u64>) -> bool {
        id.is_none() || self.is_captured() || id == self.id()
    }

    /// Notes that the stream is about to be destroyed.
    pub fn ends(self) {
        let known = lock(&BORROWED).remove(&self.0);
        if let Some((known, _)) = known
            && let Some(memory) = known.backend::<CudaMemory>()
        {
            memory.queue().end();
        }
        note_end();
    }
}

// The driver has it since CUDA 12.0. cudarc panics if it is missing, so it is looked up here.
driver_calls! {
    get_id: cuStreamGetId(sys::CUstream, *mut u64);
}

impl Handle {
    /// The stream for memory that is allocated and freed in the host's order: all work on a block is done when it is freed, and when it is
    /// allocated. There is one for each device.
    pub fn host_ordered() -> Option<Stream> {
        static STREAMS: Mutex<Vec<(usize, Stream)>> = Mutex::new(Vec::new());
        let context = Handle(0).context()?;
        let mut streams = lock(&STREAMS);
        let key = context.cu_ctx() as usize;
        if let Some((_, known)) = streams.iter().find(|(other, _)| *other == key) {
            return Some(known.clone());
        }
        driver::bind(&context).ok()?;
        let new = lent(lasting_stream(&context).ok()?)?;
        streams.push((key, new.clone()));
        Some(new)
    }

    /// Waits until all work of a stream's context is done. Returns whether it is: while a stream is captured, the driver refuses to wait.
    pub fn wait_for_context_of(stream: &Stream) -> bool {
        let wait = |context: &CudaContext| driver::bind(context).and_then(|()| result::ctx::synchronize());
        stream.backend::<CudaMemory>().is_none_or(|memory| wait(memory.queue().stream().context()).is_ok())
    }

    /// The number of the GPU of a stream; `None` if it is not one of a GPU.
    pub fn device_of(stream: &Stream) -> Option<usize> {
        stream.backend::<CudaMemory>().map(|memory| memory.queue().stream().context().ordinal())
    }

    /// Makes the context of a GPU's stream current on this thread if none is, as the first `cudaMalloc` of a thread does. While none is,
    /// each `cudaGetDevice` of CUDA's runtime fails inside and writes a log, which takes 1 to 3 µs (driver 580).
    ///
    /// # Errors
    /// The answer of the driver.
    pub fn give_context(stream: &Stream) -> Result<()> {
        match stream.backend::<CudaMemory>() {
            Some(memory) if result::ctx::get_current()?.is_none() => {
                Ok(driver::bind(memory.queue().stream().context())?)
            }
            _ => Ok(()),
        }
    }

    /// Bytes that the driver's pool of a stream's device keeps for later allocations.
    pub fn idle_in_pool(stream: &Stream) -> u64 {
        let bytes = |memory: &CudaMemory| pool::bytes(memory.context()).ok();
        stream.backend::<CudaMemory>().and_then(bytes).map_or(0, |[held, used]| held.saturating_sub(used))
    }
}

/// A stream over a queue that other code owns.
fn lent(stream: Arc<CudaStream>) -> Option<Stream> {
    gpu_of(CudaQueue::lent(stream)).ok().map(|(_, new)| new())
}

static BORROWED: LazyLock<Mutex<HashMap<usize, Borrowed>>> = LazyLock::new(Mutex::default);

/// cudarc's object for this context, if this is the primary context of a device.
fn served_context(raw: sys::CUcontext) -> Option<Arc<CudaContext>> {
    static SERVED: Mutex<Vec<Arc<CudaContext>>> = Mutex::new(Vec::new());
    let mut served = lock(&SERVED);
    if let Some(known) = served.iter().find(|known| known.cu_ctx() == raw) {
        return Some(known.clone());
    }
    let before = result::ctx::get_current().ok().flatten();
    let count = CudaContext::device_count().ok()?;
    let found = (0..count as usize).find_map(|ordinal| device_context(ordinal, raw));
    // SAFETY: it was current on this thread a moment ago, and the code that made it current keeps it alive for as long. Or it is null, which
    // means no context to the driver.
    let _ = unsafe { result::ctx::set_current(before.unwrap_or(std::ptr::null_mut())) };
    served.extend(found.clone());
    found
}

/// cudarc's object for the primary context of a device, if that context is `raw`. The question does not initialise a context that nobody
/// uses.
fn device_context(ordinal: usize, raw: sys::CUcontext) -> Option<Arc<CudaContext>> {
    let device = cudarc::driver::result::device::get(ordinal as i32).ok()?;
    let (mut flags, mut is_active) = (0, 0);
    // SAFETY: the driver writes two numbers, for which there is room.
    let answer = unsafe { sys::cuDevicePrimaryCtxGetState(device, &mut flags, &mut is_active) };
    if answer != sys::CUresult::CUDA_SUCCESS || is_active == 0 {
        return None;
    }
    driver::primary_context(ordinal).ok().filter(|context| context.cu_ctx() == raw)
}
