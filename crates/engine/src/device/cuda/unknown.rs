//! Work on a GPU of which this crate is not told: kernels that got an address, on streams that nobody passed to this crate.
//!
//! cudarc's objects for one GPU share its primary context, so a kernel may run on a stream of another object. One event of the driver
//! (`cuCtxRecordEvent`, CUDA 12.5) marks the end of all present work of a context. With older drivers, a thread waits for the context. The
//! caller can ask that thread, and so never has to wait without a limit.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{TryRecvError, channel};

use cudarc::driver::{CudaContext, DriverError, result, sys::CUresult};

use super::driver::{self, OwnEvent};
use super::errors::failure;
use super::known::Known;
use crate::base::error::Result;
use crate::base::sync::Mutex;
use crate::device::event::Event;
use crate::device::stream::Stream;
use crate::device::unknown::{IsDone, UnknownWork};

/// The work of all contexts of a GPU in which this process has handles of streams.
impl UnknownWork for Known {
    #[inline]
    fn note(&self) {
        // Without this check, all launches would write to one cache line.
        if !self.is_possible() {
            self.has_unknown_work.store(true, Relaxed);
        }
    }

    #[inline]
    fn is_possible(&self) -> bool {
        self.has_unknown_work.load(Relaxed)
    }

    fn note_unordered(&self) {
        self.is_unordered.store(true, Relaxed);
    }

    #[inline]
    fn is_unordered(&self) -> bool {
        self.is_unordered.load(Relaxed)
    }

    fn mark(&self) -> Result<Option<IsDone>> {
        let Some(context) = self.context.get() else { return Ok(None) };
        // A mark would end the capture of a stream.
        if Stream::is_any_in_capture()
            || self.all().iter().any(|stream| stream.memory().queue().is_captured() != Ok(false))
        {
            return Ok(None);
        }
        let marks: Result<Vec<IsDone>, DriverError> = self.contexts(context).iter().map(mark).collect();
        match marks {
            Ok(marks) => Ok(Some(Box::new(move || {
                let mut are_done = true;
                marks.iter().try_for_each(|is_done| is_done().map(|is_done| are_done &= is_done))?;
                Ok(are_done)
            }))),
            // A stream without a handle is being captured, or the call is made in a callback of the driver.
            Err(DriverError(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED | CUresult::CUDA_ERROR_NOT_PERMITTED)) => {
                Ok(None)
            }
            Err(error) => Err(failure(context, WAITING, error)),
        }
    }
}

/// The operation that an error names.
const WAITING: &str = "waiting for a context";

/// Marks the end of all work that a context has got so far.
fn mark(context: &Arc<CudaContext>) -> Result<IsDone, DriverError> {
    let event = OwnEvent::new(context)?;
    match event.record_context() {
        Some(recorded) => recorded.map(|()| Box::new(move || Event::is_complete(&event)) as IsDone),
        None => wait_aside(context),
    }
}

/// Starts a thread that waits for a context, if the driver has no event for that.
fn wait_aside(context: &Arc<CudaContext>) -> Result<IsDone, DriverError> {
    let (done, answer) = channel();
    let waiting = context.clone();
    let thread = std::thread::Builder::new().name("gpucache wait".into());
    let started = thread.spawn(move || {
        let waited = driver::bind(&waiting).and_then(|()| result::ctx::synchronize());
        // If the range has been dropped, nobody receives the answer.
        let _ = done.send(waited);
    });
    started.map_err(|_| DriverError(CUresult::CUDA_ERROR_OPERATING_SYSTEM))?;
    let (answer, context) = (Mutex::new(answer), context.clone());
    Ok(Box::new(move || match answer.lock().map(|answer| answer.try_recv()) {
        Ok(Ok(waited)) => waited.map(|()| true).map_err(|error| failure(&context, WAITING, error)),
        Ok(Err(TryRecvError::Empty)) => Ok(false),
        Ok(Err(TryRecvError::Disconnected)) | Err(_) => {
            Err(failure(&context, WAITING, DriverError(CUresult::CUDA_ERROR_OPERATING_SYSTEM)))
        }
    }))
}
