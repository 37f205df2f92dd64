//! Calls of the driver that leave alone what cudarc keeps, and events of this crate's own.
//!
//! cudarc keeps a failure that a drop of its own could not return in the context object, and whoever binds that object next
//! (`bind_to_thread`, in nearly every call of cudarc's) gets it instead of what was called for. A wait that is left out so
//! would leave memory unordered, and a question that is answered so would swallow the failure. So this crate binds contexts
//! itself, and takes what cudarc kept only where it can be reported.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError, result, sys};
use libloading::Library;

use super::current::note_change;
use crate::base::sync::OnceLock;
use crate::device::process_exits;

/// Makes a context current on the calling thread.
pub(super) fn bind(context: &CudaContext) -> Result<(), DriverError> {
    let mine = context.cu_ctx();
    let before = result::ctx::get_current()?;
    if before != Some(mine) {
        note_change(before);
        // SAFETY: `mine` is a live context: cudarc's object holds a reference to it until its drop, and is borrowed
        // here.
        unsafe { result::ctx::set_current(mine) }?;
    }
    Ok(())
}

/// An event that is not destroyed while this is borrowed from it, by whatever object it is owned.
///
/// Invariant: the handle is that of an event that lives for `'a`.
#[derive(Clone, Copy)]
pub struct EventRef<'a> {
    event: sys::CUevent,
    owner: PhantomData<&'a ()>,
}

impl<'a> EventRef<'a> {
    /// The event of a cudarc object.
    pub fn of(event: &'a CudaEvent) -> EventRef<'a> {
        EventRef { event: event.cu_event(), owner: PhantomData }
    }

    /// The handle, for an owner that cannot be borrowed from for as long as the handle is kept beside it.
    pub fn handle(self) -> EventHandle {
        EventHandle(self.event as usize)
    }

    /// Puts the event behind all work that is on `stream` now.
    pub(super) fn record(self, stream: &CudaStream) -> Result<(), DriverError> {
        // The handle of a default stream means that of the context that is current.
        bind(stream.context())?;
        // SAFETY: both handles are those of live objects: the event's by this type's invariant, the stream's since it
        // is borrowed and destroys its handle only when it is dropped. The stream's context is current.
        unsafe { result::event::record(self.event, stream.cu_stream()) }
    }

    /// Makes later work of `stream` wait for what the event is behind now. The event may be of any context and any GPU.
    pub(super) fn precede(self, stream: &CudaStream) -> Result<(), DriverError> {
        bind(stream.context())?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both handles are those of live objects: the event's by this type's invariant, the stream's since it
        // is borrowed and destroys its handle only when it is dropped. The driver takes events of other contexts here.
        unsafe { result::stream::wait_event(stream.cu_stream(), self.event, flags) }
    }

    /// Puts it behind all work that a context, which is its own, was given so far, on whatever stream; `None` where the driver
    /// (before CUDA 12.5) cannot do this.
    pub(super) fn record_context(self, context: &CudaContext) -> Option<Result<(), DriverError>> {
        let record = record_context()?;
        // SAFETY: the driver's own function, of the type that its header declares. The context is alive, as its object holds a
        // reference to it and is borrowed, and so is the event, by this type's invariant.
        Some(bind(context).and_then(|()| unsafe { record(context.cu_ctx(), self.event) }.result()))
    }

    /// Waits on the calling thread until what it is behind is done.
    pub(super) fn synchronize(self) -> Result<(), DriverError> {
        self.ask(true)
    }

    /// Whether it was recorded last by a stream that was captured.
    pub(super) fn is_of_capture(self) -> bool {
        self.query() == Err(DriverError(sys::CUresult::CUDA_ERROR_CAPTURED_EVENT))
    }

    /// What the driver answers when it is asked whether the work before the last record is done.
    fn query(self) -> Result<(), DriverError> {
        self.ask(false)
    }

    /// Asks whether the work before the last record is done, or waits for that.
    fn ask(self, waits: bool) -> Result<(), DriverError> {
        // SAFETY: the event is alive by this type's invariant, which is all that a query needs, and a wait for it.
        unsafe { if waits { result::event::synchronize(self.event) } else { result::event::query(self.event) } }
    }

    /// Milliseconds between the work before this and that before an earlier one. Both were made with timing.
    fn milliseconds_since(self, earlier: EventRef<'_>) -> Result<f32, DriverError> {
        // SAFETY: both events are alive by this type's invariant. One that was made without timing, is not complete or lies in another
        // context is an error of the driver's.
        unsafe { result::event::elapsed(earlier.event, self.event) }
    }
}

/// The handle of an event without its owner: a number that nothing can be done with.
#[derive(Clone, Copy, Debug)]
pub struct EventHandle(usize);

impl EventHandle {
    /// The event, to be used.
    ///
    /// # Safety
    /// It is not destroyed during `'a`.
    pub unsafe fn borrow<'a>(self) -> EventRef<'a> {
        EventRef { event: self.0 as sys::CUevent, owner: PhantomData }
    }
}

/// An event of this crate's own. It is destroyed when this is dropped, and not before.
#[derive(Debug)]
pub struct OwnEvent {
    event: EventHandle,
    context: Arc<CudaContext>,
}

impl OwnEvent {
    /// One without timing.
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<OwnEvent, DriverError> {
        OwnEvent::with(context, sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    /// One that tells when it was reached.
    pub(super) fn timed(context: &Arc<CudaContext>) -> Result<OwnEvent, DriverError> {
        OwnEvent::with(context, sys::CUevent_flags::CU_EVENT_DEFAULT)
    }

    fn with(context: &Arc<CudaContext>, flags: sys::CUevent_flags) -> Result<OwnEvent, DriverError> {
        bind(context)?;
        let event = result::event::create(flags)?;
        Ok(OwnEvent { event: EventHandle(event as usize), context: context.clone() })
    }

    pub(super) fn context(&self) -> &CudaContext {
        &self.context
    }

    pub(super) fn as_ref(&self) -> EventRef<'_> {
        // The event lives as long as this: it was made in `new` and is destroyed in the drop alone.
        EventRef { event: self.event.0 as sys::CUevent, owner: PhantomData }
    }

    /// As [`EventRef::record_context`].
    pub(super) fn record_context(&self) -> Option<Result<(), DriverError>> {
        self.as_ref().record_context(&self.context)
    }

    /// Whether the work that it was put behind last is done.
    pub(super) fn is_complete(&self) -> Result<bool, DriverError> {
        // It may have been made by another thread, and the context is bound to each on its own.
        bind(&self.context)?;
        match self.as_ref().query() {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The time from when an earlier one was reached until this one was, once both are. Both were made by [`timed`](OwnEvent::timed).
    pub(super) fn since(&self, earlier: &OwnEvent) -> Result<Option<Duration>, DriverError> {
        bind(&self.context)?;
        match self.as_ref().milliseconds_since(earlier.as_ref()) {
            Ok(milliseconds) => Ok(Some(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for OwnEvent {
    fn drop(&mut self) {
        if !process_exits() && bind(&self.context).is_ok() {
            // A failure here is that of a lost context, which every later call meets as well.
            // SAFETY: the event was made in `new`, and this is the only place that destroys it, once. Nobody borrows it
            // any more, and the driver lets streams that wait for it go on waiting.
            let _ = unsafe { result::event::destroy(self.as_ref().event) };
        }
    }
}

type RecordContext = unsafe extern "C" fn(sys::CUcontext, sys::CUevent) -> sys::CUresult;

/// `cuCtxRecordEvent`. cudarc has it only where it was built for CUDA 12.5 or newer, so it is looked up.
fn record_context() -> Option<RecordContext> {
    static RECORD: OnceLock<Option<RecordContext>> = OnceLock::new();
    *RECORD.get_or_init(|| {
        let library = load()?;
        // SAFETY: `RecordContext` is the function's declaration in the driver's header, which no version has changed.
        // The address is good while the library is loaded, and that is for ever, as the library is never dropped.
        let function = unsafe { library.get::<RecordContext>(b"cuCtxRecordEvent\0") }.ok().map(|found| *found);
        std::mem::forget(library);
        function
    })
}

/// The names of the driver's library.
const LIBRARY: [&str; 3] = ["libcuda.so.1", "libcuda.so", "nvcuda.dll"];

/// Whether the driver can be loaded: cudarc panics where it cannot.
pub(super) fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| load().is_some())
}

pub(super) fn load() -> Option<Library> {
    LIBRARY.into_iter().find_map(|name| {
        // SAFETY: loading runs the initialisers of the driver's library, which are made to be run by any process and at
        // any time, and its unloading what the driver has for that. Nothing in it is called here.
        unsafe { Library::new(name) }.ok()
    })
}
