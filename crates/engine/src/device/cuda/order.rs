//! Orders the stream of a handle with streams that a caller passes, and with streams that nobody passes.

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, CudaStream, DriverError, result};

use super::GpuStream;
use super::driver::{self, EventRef, OwnEvent};
use super::errors;
use super::known::{Known, Peer, RawStream};
use crate::base::error::{Error, Result};
use crate::device::unknown::UnknownWork;

impl GpuStream {
    fn known(&self) -> &Known {
        self.memory().known()
    }

    /// The relation of `stream` to this one.
    #[inline]
    pub fn peer(&self, stream: &CudaStream) -> Peer {
        let raw = RawStream::of(stream);
        if raw == self.memory().queue().raw() { Peer::Home } else { self.foreign(raw, stream) }
    }

    fn foreign(&self, raw: RawStream, stream: &CudaStream) -> Peer {
        self.known().meet(self.stream(), stream);
        // Streams of two GPUs have no epochs in common.
        if stream.context().ordinal() != self.stream().context().ordinal() {
            return Peer::Passing;
        }
        if let Some(known) = self.known().find(raw) {
            return Peer::Known(known);
        }
        // Default streams live as long as the context, or the thread.
        let default = match () {
            () if raw.is_default() => GpuStream::of(stream.context().default_stream()).ok(),
            () if raw.is_per_thread() => GpuStream::of_this_thread(&stream.context().per_thread_stream()).ok(),
            () => None,
        };
        default.map_or(Peer::Passing, Peer::Known)
    }

    /// Whether this process used streams of this GPU that are unknown to the cudarc context object of another stream.
    pub fn is_mixed(&self) -> bool {
        self.known().is_mixed()
    }

    /// Notes that other code gets an address of this GPU's memory and does not say on which stream it will use it.
    #[inline]
    pub fn note_unknown_work(&self) {
        self.known().note();
    }

    /// Whether cudarc skips the waits before launches on a stream that this process used.
    pub fn has_deaf(&self) -> bool {
        self.known().has_deaf()
    }

    /// Takes the failure that cudarc kept in a context object, because cudarc's next call would return it, whatever that call is. Keeps it
    /// here for the next fallible call on this stream. Returns whether there was a failure.
    pub fn take_kept(&self, context: &CudaContext) -> bool {
        let kept = context.check_err();
        kept.map_err(|error| self.0.keep(self.failure("an earlier call of cudarc", error))).is_err()
    }

    /// Makes an event and destroys it.
    ///
    /// # Errors
    /// A failure of the driver. A failure that cudarc kept is none, and stays with cudarc.
    pub fn try_event(&self) -> Result<()> {
        self.new_event().map(drop)
    }

    /// Makes the stream's context current on the calling thread, for calls of cudarc that do not. If this fails, those calls fail too.
    pub fn make_current(&self) {
        let _ = self.take_kept(self.stream().context());
        let _ = driver::bind(self.stream().context());
    }

    /// The error for the driver's answer to an operation on this stream.
    pub fn failure(&self, operation: &'static str, error: DriverError) -> Error {
        errors::failure(self.stream().context(), operation, error)
    }

    fn new_event(&self) -> Result<OwnEvent> {
        OwnEvent::new(self.stream().context()).map_err(|error| self.failure("making an event", error))
    }

    /// Makes later work of `stream` wait for all work that is on this one now.
    pub fn lead(&self, stream: &CudaStream) -> Result<()> {
        let event = self.new_event()?;
        let ordered = self.memory().queue().record(event.as_ref()).and_then(|()| event.as_ref().precede(stream));
        ordered.map_err(|error| self.failure("ordering a stream behind another one", error))
    }

    pub(super) fn follow_ref(&self, event: EventRef<'_>) -> Result<()> {
        match self.memory().queue().follow(event) {
            Ok(()) => Ok(()),
            Err(_) if event.is_of_capture() => Ok(()),
            Err(error) => Err(self.failure("waiting for an event", error)),
        }
    }

    pub(super) fn record_ref(&self, event: EventRef<'_>) -> Result<()> {
        self.memory().queue().record(event).map_err(|error| self.failure("recording an event", error))
    }

    /// Makes later work of this stream wait for all work that its context has got so far, on any stream.
    ///
    /// Two cases are different: the driver cannot do this (before CUDA 12.5), or a stream is being captured and the call would end its
    /// capture. Then this waits for the work on all streams that have a handle.
    ///
    /// # Errors
    /// A failure of the driver.
    pub fn follow_context(&self) -> Result<()> {
        let event = self.new_event()?;
        let others = self.known().all();
        let whole = if others.iter().any(GpuStream::is_captured) { None } else { event.record_context() };
        let is_whole = match whole {
            Some(Ok(())) => true,
            // A stream without a handle is being captured. While that is known, the driver was not asked.
            Some(Err(DriverError(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED))) | None => false,
            Some(Err(error)) => return Err(self.failure("recording an event for a context", error)),
        };
        if is_whole {
            let followed = self.memory().queue().follow(event.as_ref());
            followed.map_err(|error| self.failure("waiting for a context", error))?;
        }
        let is_left = |other: &GpuStream| other.0.id() != self.0.id() && !other.is_captured();
        let is_elsewhere = |other: &GpuStream| other.stream().context().cu_ctx() != self.stream().context().cu_ctx();
        for other in others.iter().filter(|other| is_left(other) && (!is_whole || is_elsewhere(other))) {
            self.follow(other)?;
        }
        Ok(())
    }

    fn follow(&self, other: &GpuStream) -> Result<()> {
        // An event of the other stream's context, since a stream records only events of its own context.
        let event = other.new_event()?;
        other.record_ref(event.as_ref())?;
        self.follow_ref(event.as_ref())
    }

    /// Whether the stream is being captured. If it cannot be asked, its next call reports the failure.
    pub(super) fn is_captured(&self) -> bool {
        self.memory().queue().is_captured() == Ok(true)
    }

    /// Makes the calling thread wait until all work of a context is done.
    ///
    /// # Errors
    /// An error of that work.
    pub fn synchronize_context(&self, context: &CudaContext) -> Result<()> {
        let done = driver::bind(context).and_then(|()| result::ctx::synchronize());
        done.map_err(|error| self.failure("waiting for a context", error))
    }

    /// Makes the calling thread wait until all work is done of each context of this GPU whose streams have handles.
    ///
    /// # Errors
    /// An error of that work.
    pub fn synchronize_gpu(&self) -> Result<()> {
        let contexts = self.known().contexts(self.stream().context());
        contexts.iter().try_for_each(|context| self.synchronize_context(context))
    }

    /// Makes the calling thread wait until all work of this stream is done. A failure that cudarc kept stays where it is.
    ///
    /// # Errors
    /// An error of that work.
    pub fn wait_for_work(&self) -> Result<()> {
        self.0.shared_backend().synchronize()
    }

    /// For a failure to order streams that cannot be returned to a caller. It waits for the GPU instead, and keeps the failure for the next
    /// fallible call.
    pub fn wait_instead(&self, error: Error) {
        self.0.keep(error);
        if let Err(error) = self.synchronize_gpu() {
            self.0.keep(error);
        }
    }
}
