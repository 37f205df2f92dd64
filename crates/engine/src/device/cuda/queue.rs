//! The queue of a stream on a GPU. This crate holds some queues. Others belong to other code, which may end them.
//!
//! A *held* stream lives as long as its handle here. A *lent* stream belongs to another library, or is a thread's own (the per-thread
//! default stream). It may end at any time, while memory still refers to it. The code that first learns of the end calls [`CudaQueue::end`].
//! From then on an *heir*, a stream that lives as long as the process, stands for the work so far, and later calls of the queue go to the
//! heir.
//!
//! The handle of the per-thread stream means a different queue on each thread. So if one thread calls the queue of another thread, the call
//! is made through the whole context and waits for it. This is slow but correct, and rare.
//!
//! Invariant: a lent handle is used only under the lock under which it ends.
#![allow(unsafe_code)]

use std::sync::{Arc, PoisonError, RwLock};
use std::thread::ThreadId;

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

use super::driver::{self, EventRef, OwnEvent};
use super::known::RawStream;
use crate::base::sync::{Mutex, lock};

#[derive(Debug)]
pub(super) struct CudaQueue {
    stream: Arc<CudaStream>,
    lent: Option<Lent>,
}

/// The additional state of a lent queue.
#[derive(Debug)]
struct Lent {
    /// The thread that the stream belongs to, for a per-thread stream.
    thread: Option<ThreadId>,
    /// The stream that replaces it once it has ended.
    heir: RwLock<Option<Arc<CudaStream>>>,
}

impl CudaQueue {
    /// The queue of a stream that lives as long as `stream`.
    pub(super) fn held(stream: Arc<CudaStream>) -> CudaQueue {
        CudaQueue { stream, lent: None }
    }

    /// The queue of a stream that its owner may end at any time.
    pub(super) fn lent(stream: Arc<CudaStream>) -> CudaQueue {
        CudaQueue { stream, lent: Some(Lent { thread: None, heir: RwLock::default() }) }
    }

    /// The calling thread's own queue. `stream` has the handle that means it on this thread.
    pub(super) fn of_this_thread(stream: Arc<CudaStream>) -> CudaQueue {
        let thread = Some(std::thread::current().id());
        CudaQueue { stream, lent: Some(Lent { thread, heir: RwLock::default() }) }
    }

    /// cudarc's object, for its context and handle.
    #[inline]
    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Whether other code may put work on the stream by a handle of its own.
    pub(super) fn is_held_elsewhere(&self) -> bool {
        self.lent.is_some() || Arc::strong_count(&self.stream) > 1
    }

    /// The driver's name of the stream.
    #[inline]
    pub(super) fn raw(&self) -> RawStream {
        let raw = RawStream::of(&self.stream);
        if raw.is_per_thread() { raw.of_thread(self.lent.as_ref().and_then(|lent| lent.thread)) } else { raw }
    }

    fn context(&self) -> &Arc<CudaContext> {
        self.stream.context()
    }

    /// Runs `call` with the stream, while its context is current. If the queue belongs to another thread, it runs `elsewhere` instead,
    /// while the context is current.
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
        // Not under the lock: this may wait for work, and that work may wait for the thread that ends the stream.
        elsewhere()
    }

    /// Waits until all work that is on the stream now is done. No lock is held meanwhile.
    pub(super) fn synchronize(&self) -> Result<(), DriverError> {
        if self.lent.is_none() {
            // SAFETY: the queue holds the stream, so the handle is that of a live stream.
            return self.run(|stream| unsafe { result::stream::synchronize(stream) });
        }
        let event = OwnEvent::new(self.context())?;
        self.record(event.as_ref())?;
        event.as_ref().synchronize()
    }

    /// Makes a driver call that puts work on the stream or waits for it. The handle is valid while `call` runs.
    pub(super) fn run<R>(&self, call: impl Fn(sys::CUstream) -> Result<R, DriverError>) -> Result<R, DriverError> {
        let here = |stream: &CudaStream| call(stream.cu_stream());
        self.with(here, || {
            // This work waits for all work that the other thread has queued. It is done before that thread queues more work that must come
            // after it.
            result::ctx::synchronize()?;
            let answer = call(self.stream.cu_stream())?;
            // SAFETY: the handle is that of the calling thread's own stream in the current context. That stream lives as long as the
            // thread.
            unsafe { result::stream::synchronize(self.stream.cu_stream()) }?;
            Ok(answer)
        })
    }

    /// Records an event behind all work that is on the stream now. If the stream belongs to another thread, the event is behind all work of
    /// the context.
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

    /// Makes later work of the stream wait for all work before the event's last recording. If the stream belongs to another thread, the
    /// calling thread waits.
    pub(super) fn follow(&self, event: EventRef<'_>) -> Result<(), DriverError> {
        self.with(|stream| event.precede(stream), || event.synchronize())
    }

    /// Whether the stream is being captured. A stream of another thread cannot be asked and counts as not captured.
    pub(super) fn is_captured(&self) -> Result<bool, DriverError> {
        // SAFETY: the stream is borrowed, so its handle is that of a live stream. If it is the handle of a default stream, its context is
        // current, which tells the driver which stream is meant.
        let status = |stream: &CudaStream| unsafe { result::stream::is_capturing(stream.cu_stream()) };
        let is_captured =
            |stream: &CudaStream| Ok(status(stream)? != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE);
        // Any other handle says which stream is meant, whatever context is current. Each run of a captured scope asks this, so it makes
        // one call instead of two.
        if self.lent.is_none()
            && !RawStream::of(&self.stream).is_default()
            && let Ok(known) = is_captured(&self.stream)
        {
            return Ok(known);
        }
        self.with(is_captured, || Ok(false))
    }

    /// Whether the stream belongs to another thread, and has not ended.
    pub(super) fn is_elsewhere(&self) -> bool {
        let owner = self.lent.as_ref().and_then(|lent| lent.thread);
        owner.is_some_and(|thread| thread != std::thread::current().id()) && !self.has_ended()
    }

    /// Whether the stream has ended. Any thread may then record events on its heir.
    pub(super) fn has_ended(&self) -> bool {
        let has_heir = |lent: &Lent| lent.heir.read().unwrap_or_else(PoisonError::into_inner).is_some();
        self.lent.as_ref().is_some_and(has_heir)
    }

    /// Replaces the stream by an heir, because it is about to end. Call this on the thread that it belongs to, or before its handle is
    /// destroyed.
    pub(super) fn end(&self) {
        self.end_by(|| self.handed_on());
    }

    /// Replaces a stream that ended without notice, whose handle may mean another stream by now. So this waits for all work of the context.
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
                // If the work cannot be ordered, this waits for it. The wait fails only if the context is lost, with all its work.
                let _ = driver::bind(self.context()).and_then(|()| result::ctx::synchronize());
                self.context().default_stream()
            });
            *place = Some(heir);
        }
    }

    /// A queue of the same context that nobody captures.
    pub(super) fn beside(&self) -> Result<CudaQueue, DriverError> {
        driver::bind(self.context())?;
        heir_of(self.context()).map(CudaQueue::held)
    }

    /// The heir, after it was told to wait for all work that is on the stream now.
    fn handed_on(&self) -> Result<Arc<CudaStream>, DriverError> {
        driver::bind(self.context())?;
        let (heir, event) = (heir_of(self.context())?, OwnEvent::new(self.context())?);
        event.as_ref().record(&self.stream)?;
        event.as_ref().precede(&heir)?;
        Ok(heir)
    }
}

/// The stream that stands for the ended streams of a context. It has no work of its own and lives as long as the process.
fn heir_of(context: &Arc<CudaContext>) -> Result<Arc<CudaStream>, DriverError> {
    static HEIRS: Mutex<Vec<Arc<CudaStream>>> = Mutex::new(Vec::new());
    let mut heirs = lock(&HEIRS);
    if let Some(heir) = heirs.iter().find(|heir| heir.context().cu_ctx() == context.cu_ctx()) {
        return Ok(heir.clone());
    }
    let heir = lasting_stream(context)?;
    heirs.push(heir.clone());
    Ok(heir)
}

/// A stream that the context's cudarc object does not know of.
///
/// A cudarc object that has made a stream assumes that the program works on several streams. From then on, each launch waits for an event
/// of each argument and records one, which doubles the cost of launching a small kernel. Only this crate orders the work on the new stream.
pub(super) fn untold_stream(context: &Arc<CudaContext>) -> Result<Arc<CudaStream>, DriverError> {
    driver::bind(context)?;
    // Another object of the same context, if that is the device's primary one.
    let other = driver::primary_context(context.ordinal())?;
    if other.cu_ctx() == context.cu_ctx() {
        return other.new_stream();
    }
    // `primary_context` has made the primary context current, so the context is bound again.
    driver::bind(context)?;
    lasting_stream(context)
}

/// A stream that lives as long as the process and is in order with no other stream. The context is current.
pub(super) fn lasting_stream(context: &Arc<CudaContext>) -> Result<Arc<CudaStream>, DriverError> {
    // The context's own method would tell cudarc that the program works on several streams.
    let handle = result::stream::create(result::stream::StreamKind::NonBlocking)?;
    // SAFETY: the handle is that of a stream of this context, which was made just now and is never destroyed.
    Ok(unsafe { context.wrap_borrowed_stream(handle) })
}
