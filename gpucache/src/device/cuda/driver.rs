//! Calls of the driver that leave alone what cudarc keeps, and events of this crate's own.
//!
//! cudarc keeps a failure that a drop of its own could not return in the context object, and whoever binds that object next
//! (`bind_to_thread`, in nearly every call of cudarc's) gets it instead of what was called for. A wait that is left out so
//! would leave memory unordered, and a question that is answered so would swallow the failure. So this crate binds contexts
//! itself, and takes what cudarc kept only where it can be reported.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError, result, sys};

use super::DRIVER;
use crate::base::sync::OnceLock;
use crate::device::process_exits;

/// Makes a context current on the calling thread.
pub(super) fn bind(context: &CudaContext) -> Result<(), DriverError> {
    let mine = context.cu_ctx();
    if result::ctx::get_current()? != Some(mine) {
        // SAFETY: the object holds the context for as long as it lives, and it is borrowed here.
        unsafe { result::ctx::set_current(mine) }?;
    }
    Ok(())
}

/// The handle of an event that somebody else owns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventHandle(usize);

impl EventHandle {
    pub(crate) fn of(event: &CudaEvent) -> EventHandle {
        EventHandle(event.cu_event() as usize)
    }

    fn raw(self) -> sys::CUevent {
        self.0 as sys::CUevent
    }
}

/// Puts an event behind all work that is on `stream` now.
///
/// # Safety
/// The event was not destroyed.
pub(super) unsafe fn record(event: EventHandle, stream: &CudaStream) -> Result<(), DriverError> {
    // The handle of a default stream means that of the context that is current.
    bind(stream.context())?;
    // SAFETY: the caller's event; the stream is borrowed, and so alive.
    unsafe { result::event::record(event.raw(), stream.cu_stream()) }
}

/// Makes later work of `stream` wait for what an event is behind now. The event may be of any context and any GPU.
///
/// # Safety
/// The event was not destroyed.
pub(super) unsafe fn wait(stream: &CudaStream, event: EventHandle) -> Result<(), DriverError> {
    bind(stream.context())?;
    let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
    // SAFETY: the caller's event; the stream is borrowed, and so alive.
    unsafe { result::stream::wait_event(stream.cu_stream(), event.raw(), flags) }
}

/// Whether an event was recorded last by a stream that was captured.
///
/// # Safety
/// The event was not destroyed.
pub(super) unsafe fn is_of_capture(event: EventHandle) -> bool {
    // SAFETY: the caller's event.
    let answer = unsafe { result::event::query(event.raw()) };
    answer == Err(DriverError(sys::CUresult::CUDA_ERROR_CAPTURED_EVENT))
}

/// An event without timing.
#[derive(Debug)]
pub(crate) struct Mark {
    event: EventHandle,
    context: Arc<CudaContext>,
}

impl Mark {
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Mark, DriverError> {
        bind(context)?;
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
        Ok(Mark { event: EventHandle(event as usize), context: context.clone() })
    }

    pub(super) fn context(&self) -> &CudaContext {
        &self.context
    }

    /// Puts it behind all work that is on `stream` now, a stream of the event's context.
    pub(super) fn record(&self, stream: &CudaStream) -> Result<(), DriverError> {
        // SAFETY: the event is destroyed in the drop alone.
        unsafe { record(self.event, stream) }
    }

    /// Makes later work of `stream` wait for what it is behind now.
    pub(super) fn precede(&self, stream: &CudaStream) -> Result<(), DriverError> {
        // SAFETY: the event is destroyed in the drop alone.
        unsafe { wait(stream, self.event) }
    }

    /// Puts it behind all work that its context was given so far, on whatever stream; `None` where the driver (before CUDA
    /// 12.5) cannot do this.
    pub(super) fn record_context(&self) -> Option<Result<(), DriverError>> {
        let record = record_context()?;
        // SAFETY: the driver's own function, with a context that is held and an event of that context that is alive.
        Some(bind(&self.context).and_then(|()| unsafe { record(self.context.cu_ctx(), self.event.raw()) }.result()))
    }

    /// Whether the work that it was put behind last is done.
    pub(super) fn is_complete(&self) -> Result<bool, DriverError> {
        // It may have been made by another thread, and the context is bound to each on its own.
        bind(&self.context)?;
        // SAFETY: the event is destroyed in the drop alone.
        match unsafe { result::event::query(self.event.raw()) } {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if !process_exits() && bind(&self.context).is_ok() {
            // A failure here is that of a lost context, which every later call meets as well.
            // SAFETY: made in `new`, and destroyed here alone. Streams that wait for it go on waiting.
            let _ = unsafe { result::event::destroy(self.event.raw()) };
        }
    }
}

type RecordContext = unsafe extern "C" fn(sys::CUcontext, sys::CUevent) -> sys::CUresult;

/// `cuCtxRecordEvent`. cudarc has it only where it was built for CUDA 12.5 or newer, so it is looked up.
fn record_context() -> Option<RecordContext> {
    static FOUND: OnceLock<Option<RecordContext>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        DRIVER.into_iter().find_map(|name| {
            // SAFETY: the driver's library, which is loaded already, so that no initialiser runs.
            let library = unsafe { libloading::Library::new(name) }.ok()?;
            // SAFETY: the type is that of the C declaration in the driver's header.
            let function = unsafe { library.get::<RecordContext>(b"cuCtxRecordEvent\0") }.ok().map(|found| *found);
            // The function stays where it is only while the library does.
            std::mem::forget(library);
            function
        })
    })
}
