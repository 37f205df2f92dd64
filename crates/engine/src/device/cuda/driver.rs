//! Driver calls that do not touch the failure that cudarc keeps, and this crate's own events.
//!
//! If a drop inside cudarc fails, cudarc keeps the failure in the context object. The next call that binds this object (`bind_to_thread`,
//! in nearly every call of cudarc) returns that failure and does nothing else. If a wait failed in this way, memory would be used without
//! order. If a query failed in this way, the failure would be lost. So this crate binds contexts itself, and takes cudarc's kept failure
//! only in calls that can report it.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};
use libloading::Library;

use super::GpuStream;
use super::current::note_change;
use crate::base::error::Error;
use crate::base::sync::OnceLock;
use crate::device::process_exits;
use crate::device::stream::Stream;

/// Makes a context current on the calling thread.
pub(super) fn bind(context: &CudaContext) -> Result<(), DriverError> {
    let mine = context.cu_ctx();
    let before = result::ctx::get_current()?;
    if before != Some(mine) {
        note_change(before);
        // SAFETY: `mine` is a live context. cudarc's object holds a reference to it until its drop, and the object is borrowed here.
        unsafe { result::ctx::set_current(mine) }?;
    }
    Ok(())
}

/// cudarc's object for the primary context of a GPU. cudarc makes this context current on the calling thread.
pub(super) fn primary_context(ordinal: usize) -> Result<Arc<CudaContext>, DriverError> {
    // Before its initialisation, the driver answers with an error, and no context is current.
    note_change(result::ctx::get_current().ok().flatten());
    CudaContext::new(ordinal)
}

/// An event that is not destroyed while this value exists. It may belong to an object of any type.
///
/// Invariant: the handle is that of an event that lives for `'a`.
#[derive(Clone, Copy)]
pub(super) struct EventRef<'a> {
    event: sys::CUevent,
    owner: PhantomData<&'a ()>,
}

impl EventRef<'_> {
    /// Records the event behind all work that is on `stream` now.
    pub(super) fn record(self, stream: &CudaStream) -> Result<(), DriverError> {
        // The handle of a default stream means the default stream of the current context.
        bind(stream.context())?;
        // SAFETY: both handles are those of live objects. For the event, this type's invariant says so. The stream is borrowed, and
        // destroys its handle only in its drop. The stream's context is current.
        unsafe { result::event::record(self.event, stream.cu_stream()) }
    }

    /// Makes later work of `stream` wait for all work before the event's last recording. The event may be of any context and any GPU.
    pub(super) fn precede(self, stream: &CudaStream) -> Result<(), DriverError> {
        bind(stream.context())?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both handles are those of live objects. For the event, this type's invariant says so. The stream is borrowed, and
        // destroys its handle only in its drop. The driver accepts events of other contexts here.
        unsafe { result::stream::wait_event(stream.cu_stream(), self.event, flags) }
    }

    /// Records the event behind all work that its own context has got so far on any stream. `None` if the driver cannot do this (before
    /// CUDA 12.5). The driver refuses while a stream of the context is captured, and ends the capture. So it is not asked while other code
    /// is known to capture a stream.
    pub(super) fn record_context(self, context: &CudaContext) -> Option<Result<(), DriverError>> {
        let record = calls()?.record_context;
        if Stream::is_other_in_capture() {
            return Some(Err(DriverError(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)));
        }
        // SAFETY: this is the driver's own function, of the type that its header declares. The context is alive, since its object holds a
        // reference to it and is borrowed. The event is alive by this type's invariant.
        Some(bind(context).and_then(|()| unsafe { record(context.cu_ctx(), self.event) }.result()))
    }

    /// Makes the calling thread wait until all work before the last recording is done.
    pub(super) fn synchronize(self) -> Result<(), DriverError> {
        self.ask(true)
    }

    /// Whether the last recording was on a stream that was being captured.
    pub(super) fn is_of_capture(self) -> bool {
        self.query() == Err(DriverError(sys::CUresult::CUDA_ERROR_CAPTURED_EVENT))
    }

    /// Asks the driver whether the work before the last recording is done.
    fn query(self) -> Result<(), DriverError> {
        self.ask(false)
    }

    /// Asks whether the work before the last recording is done, or waits until it is.
    fn ask(self, waits: bool) -> Result<(), DriverError> {
        // SAFETY: the event is alive by this type's invariant. A query of it and a wait for it require nothing else.
        unsafe { if waits { result::event::synchronize(self.event) } else { result::event::query(self.event) } }
    }

    /// The milliseconds between the last recordings of the two events. Both were made with timing.
    fn milliseconds_since(self, earlier: EventRef<'_>) -> Result<f32, DriverError> {
        // SAFETY: both events are alive by this type's invariant. If one was made without timing, is not complete or belongs to another
        // context, the driver returns an error.
        unsafe { result::event::elapsed(earlier.event, self.event) }
    }
}

/// Events of other code, by their handles as numbers. A caller that keeps an event and its handle in one value cannot borrow the event.
impl GpuStream {
    /// Makes later work of this stream wait for all work before the event's last recording. If the event was recorded in a capture that has
    /// ended since, there is nothing to wait for: the user of a graph orders its work.
    ///
    /// # Safety
    /// `event` is the `cu_event` of an event that is not destroyed during the call.
    pub unsafe fn follow_event(&self, event: usize) -> Result<(), Error> {
        self.follow_ref(EventRef { event: event as sys::CUevent, owner: PhantomData })
    }

    /// Records an event behind all work that is on this stream now.
    ///
    /// # Safety
    /// As for [`follow_event`](GpuStream::follow_event).
    pub unsafe fn record_event(&self, event: usize) -> Result<(), Error> {
        self.record_ref(EventRef { event: event as sys::CUevent, owner: PhantomData })
    }
}

/// An event that belongs to this crate. It is destroyed when this value is dropped, and not before.
#[derive(Debug)]
pub(super) struct OwnEvent {
    /// The handle, as a number.
    event: usize,
    context: Arc<CudaContext>,
}

impl OwnEvent {
    /// An event without timing.
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<OwnEvent, DriverError> {
        OwnEvent::with(context, sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    /// An event that records the time at which it was reached.
    pub(super) fn timed(context: &Arc<CudaContext>) -> Result<OwnEvent, DriverError> {
        OwnEvent::with(context, sys::CUevent_flags::CU_EVENT_DEFAULT)
    }

    fn with(context: &Arc<CudaContext>, flags: sys::CUevent_flags) -> Result<OwnEvent, DriverError> {
        bind(context)?;
        let event = result::event::create(flags)?;
        Ok(OwnEvent { event: event as usize, context: context.clone() })
    }

    pub(super) fn context(&self) -> &CudaContext {
        &self.context
    }

    pub(super) fn as_ref(&self) -> EventRef<'_> {
        // The event lives as long as `self`: `with` made it, and only the drop destroys it.
        EventRef { event: self.event as sys::CUevent, owner: PhantomData }
    }

    /// Calls [`EventRef::record_context`].
    pub(super) fn record_context(&self) -> Option<Result<(), DriverError>> {
        self.as_ref().record_context(&self.context)
    }

    /// Whether the work before the last recording is done.
    pub(super) fn is_complete(&self) -> Result<bool, DriverError> {
        // Another thread may have made the event, and each thread must bind the context itself.
        bind(&self.context)?;
        match self.as_ref().query() {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The time between two events, from when `earlier` was reached until this one was; `None` until both are. Both were made by
    /// [`timed`](OwnEvent::timed).
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
            // A failure here means that the context is lost, and every later call reports that too.
            // SAFETY: `with` made the event, and only this drop destroys it, once. Nobody borrows it any more. Streams that wait for it
            // continue to wait; the driver allows this.
            let _ = unsafe { result::event::destroy(self.as_ref().event) };
        }
    }
}

/// Declares a table of functions of the driver, with the types that its header declares, and a function that finds them once.
macro_rules! driver_calls {
    ($($field:ident: $name:ident($($argument:ty),*);)*) => {
        /// Functions of the driver.
        pub(super) struct Calls {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> cudarc::driver::sys::CUresult,)*
        }

        /// The functions, if the driver has all of them.
        pub(super) fn calls() -> Option<&'static Calls> {
            static CALLS: crate::base::sync::OnceLock<Option<Calls>> = crate::base::sync::OnceLock::new();
            let find = || {
                let library = crate::device::cuda::driver::library()?;
                // SAFETY: the types are those of the driver's header, which no version has changed. The library is never unloaded, so the
                // addresses stay valid.
                unsafe { Some(Calls { $($field: *library.get(concat!(stringify!($name), "\0").as_bytes()).ok()?,)* }) }
            };
            CALLS.get_or_init(find).as_ref()
        }
    };
}
pub(super) use driver_calls;

// cudarc has it only if it was built for CUDA 12.5 or newer, so it is looked up here.
driver_calls! {
    record_context: cuCtxRecordEvent(sys::CUcontext, sys::CUevent);
}

/// The names of the driver's library.
const LIBRARY: [&str; 3] = ["libcuda.so.1", "libcuda.so", "nvcuda.dll"];

/// Whether the driver can be loaded. cudarc panics if it cannot.
pub(super) fn is_present() -> bool {
    library().is_some()
}

/// The driver's library, which stays loaded.
pub(super) fn library() -> Option<&'static Library> {
    static LOADED: OnceLock<Option<Library>> = OnceLock::new();
    let load = |name| {
        // SAFETY: loading runs the initialisers of the driver's library, which any process may run at any time. No function of the library
        // is called here.
        unsafe { Library::new(name) }.ok()
    };
    LOADED.get_or_init(|| LIBRARY.into_iter().find_map(load)).as_ref()
}
