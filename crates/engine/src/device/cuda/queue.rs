//! The queue behind a stream of a GPU: one that is held, or one that is somebody else's to end.
//!
//! A held stream lives as long as its handle here. A *lent* one is another library's, or a thread's own (the per-thread default
//! stream); it may end at any time, while memory still remembers it. Whoever learns of that first calls [`Queue::end`]: the
//! work so far is then that of an *heir*, a stream that lives as long as the process, and what is asked of the queue later is asked of that.
//!
//! The handle of the per-thread stream means another queue on each thread. What one thread asks of another one's queue is so done
//! by way of the whole context, and waited for: it is rare, and never wrong.
//!
//! Invariant: a lent handle is used only under the lock under which it ends.
#![allow(unsafe_code)]

use std::sync::{Arc, PoisonError, RwLock};
use std::thread::ThreadId;

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

use super::driver::{self, EventRef, OwnEvent};
use super::known::RawStream;
use crate::base::sync::Mutex;

#[derive(Debug)]
pub(super) struct Queue {
    stream: Arc<CudaStream>,
    lent: Option<Lent>,
}

/// What a queue has that is somebody else's to end.
#[derive(Debug)]
struct Lent {
    /// The thread whose own it is.
    thread: Option<ThreadId>,
    /// Who stands in for it once it has ended.
    heir: RwLock<Option<Arc<CudaStream>>>,
}

impl Queue {
    /// That of a stream which lives as long as `stream`.
    pub(super) fn held(stream: Arc<CudaStream>) -> Queue {
        Queue { stream, lent: None }
    }

    /// That of a stream which ends whenever its owner likes.
    #[cfg(feature = "foreign")]
    pub(super) fn lent(stream: Arc<CudaStream>) -> Queue {
        Queue { stream, lent: Some(Lent { thread: None, heir: RwLock::default() }) }
    }

    /// The calling thread's own, of which `stream` is the handle on every thread.
    pub(super) fn of_this_thread(stream: Arc<CudaStream>) -> Queue {
        let thread = Some(std::thread::current().id());
        Queue { stream, lent: Some(Lent { thread, heir: RwLock::default() }) }
    }

    /// cudarc's object, for its context and handle.
    #[inline]
    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// As the driver knows it.
    #[inline]
    pub(super) fn raw(&self) -> RawStream {
        let raw = RawStream::of(&self.stream);
        if raw.is_per_thread() { raw.of_thread(self.lent.as_ref().and_then(|lent| lent.thread)) } else { raw }
    }

    fn context(&self) -> &Arc<CudaContext> {
        self.stream.context()
    }

    /// Runs `call` with the context current and the handle of the stream; or, for another thread's own queue, `elsewhere` with the context
    /// current.
    fn with<R>(
        &self,
        call: impl FnOnce(&CudaStream) -> Result<R, DriverError>,
        elsewhere: impl FnOnce() -> Result<R, DriverError>,
    ) -> Result<R, DriverError> {
        driver::bind(self.context())?;
        let Some(lent) = &self.lent else { return call(&self.stream) };
        {
            let heir = lent.heir.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(heir) = &*heir {
                return call(heir);
            }
            if lent.thread.is_none_or(|thread| thread == std::thread::current().id()) {
                return call(&self.stream);
            }
        }
        // Without the lock, as this may wait for work, and that for whoever ends the stream.
        elsewhere()
    }

    /// Waits until all work that is on the stream now is done. No lock is held meanwhile.
    pub(super) fn synchronize(&self) -> Result<(), DriverError> {
        if self.lent.is_none() {
            // SAFETY: the queue holds the stream, whose handle so is that of a live one.
            return self.run(|stream| unsafe { result::stream::synchronize(stream) });
        }
        let event = OwnEvent::new(self.context())?;
        self.record(event.as_ref())?;
        event.as_ref().synchronize()
    }

    /// Makes a call of the driver that puts work on the stream, or waits for it. The handle is good while `call` runs.
    pub(super) fn run<R>(&self, call: impl Fn(sys::CUstream) -> Result<R, DriverError>) -> Result<R, DriverError> {
        let here = |stream: &CudaStream| call(stream.cu_stream());
        self.with(here, || {
            // Behind all that the other thread has queued; and done before that thread queues any more that is to be behind it.
            result::ctx::synchronize()?;
            let answer = call(self.stream.cu_stream())?;
            // SAFETY: the handle is that of the calling thread's own stream, which lives as long as the thread does, in the
            // context that is current.
            unsafe { result::stream::synchronize(self.stream.cu_stream()) }?;
            Ok(answer)
        })
    }

    /// Puts an event behind all work that is on the stream now; behind all of its context where it cannot be asked.
    pub(super) fn record(&self, event: EventRef<'_>) -> Result<(), DriverError> {
        self.with(
            |stream| event.record(stream),
            || {
                event.record_context(self.context()).unwrap_or_else(|| {
                    result::ctx::synchronize()?;
                    event.record(&self.stream)
                })
            },
        )
    }

    /// Makes later work of the stream wait for what an event is behind now; the thread waits where the stream cannot be told.
    pub(super) fn follow(&self, event: EventRef<'_>) -> Result<(), DriverError> {
        self.with(|stream| event.precede(stream), || event.synchronize())
    }

    /// Whether the stream is captured, as far as that can be asked: another thread's own cannot be.
    pub(super) fn capture_status(&self) -> Result<sys::CUstreamCaptureStatus, DriverError> {
        let none = || Ok(sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE);
        // SAFETY: the stream is borrowed, so that its handle is that of a live one, and its context is current, by which the
        // driver finds out which default stream is meant.
        self.with(|stream| unsafe { result::stream::is_capturing(stream.cu_stream()) }, none)
    }

    /// Whether it has ended, so that any thread may record events on its heir.
    pub(super) fn has_ended(&self) -> bool {
        let has_heir = |lent: &Lent| lent.heir.read().unwrap_or_else(PoisonError::into_inner).is_some();
        self.lent.as_ref().is_some_and(has_heir)
    }

    /// The stream is about to end: from now on an heir stands for its work. To be called by the thread whose own it is, or before the
    /// handle is destroyed.
    pub(super) fn end(&self) {
        self.end_by(|| self.handed_on());
    }

    /// The stream has ended without a word, and its handle may be another one's by now: all work of the context is waited for.
    #[cfg(feature = "foreign")]
    pub(super) fn has_been_ended(&self) {
        self.end_by(|| {
            driver::bind(self.context())?;
            result::ctx::synchronize()?;
            heir_of(self.context())
        });
    }

    fn end_by(&self, hand_on: impl FnOnce() -> Result<Arc<CudaStream>, DriverError>) {
        let Some(lent) = &self.lent else { return };
        let mut place = lent.heir.write().unwrap_or_else(PoisonError::into_inner);
        if place.is_none() {
            let heir = hand_on().unwrap_or_else(|_| {
                // What cannot be ordered is waited for. That fails only with the context, and all its work.
                let _ = driver::bind(self.context()).and_then(|()| result::ctx::synchronize());
                self.context().default_stream()
            });
            *place = Some(heir);
        }
    }

    /// The heir, behind all work that is on the stream now.
    fn handed_on(&self) -> Result<Arc<CudaStream>, DriverError> {
        driver::bind(self.context())?;
        let (heir, event) = (heir_of(self.context())?, OwnEvent::new(self.context())?);
        event.as_ref().record(&self.stream)?;
        event.as_ref().precede(&heir)?;
        Ok(heir)
    }
}

/// The stream that stands for those of a context that have ended: with no work of its own, and for as long as the process lives.
fn heir_of(context: &Arc<CudaContext>) -> Result<Arc<CudaStream>, DriverError> {
    static HEIRS: Mutex<Vec<Arc<CudaStream>>> = Mutex::new(Vec::new());
    let mut heirs = HEIRS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(heir) = heirs.iter().find(|heir| heir.context().cu_ctx() == context.cu_ctx()) {
        return Ok(heir.clone());
    }
    let heir = lasting_stream(context)?;
    heirs.push(heir.clone());
    Ok(heir)
}

/// A stream of which a context object is not told.
///
/// An object that has made a stream takes the program to work on several: each launch from then on waits for an event of each of its
/// arguments, and records one, which doubles what a launch of a small kernel costs. What is put on this stream is ordered by this crate alone.
pub(super) fn untold_stream(context: &Arc<CudaContext>) -> Result<Arc<CudaStream>, DriverError> {
    driver::bind(context)?;
    // Another object of the same context, if that is the device's primary one.
    let other = CudaContext::new(context.ordinal())?;
    if other.cu_ctx() == context.cu_ctx() {
        return other.new_stream();
    }
    // That has made the primary one current.
    driver::bind(context)?;
    lasting_stream(context)
}

/// A stream that lives as long as the process, in order with no other. The context is current.
pub(super) fn lasting_stream(context: &Arc<CudaContext>) -> Result<Arc<CudaStream>, DriverError> {
    // Not by the context's own method: that would tell cudarc that the program works on several streams.
    let handle = result::stream::create(result::stream::StreamKind::NonBlocking)?;
    // SAFETY: the handle is that of a stream of this context, which was made just now and is never destroyed.
    Ok(unsafe { context.wrap_borrowed_stream(handle) })
}
