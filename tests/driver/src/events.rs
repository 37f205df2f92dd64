//! Events: points in the work of streams, and the times when they were passed.

use std::ffi::c_uint;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use crate::answer::{Answer, Out, Status, answer, lock};
use crate::capture::Mark;
use crate::queue::Point;
use crate::table::Table;
use crate::{capture, context, streams};

const DISABLE_TIMING: c_uint = 2;

pub(crate) struct Event {
    is_timed: bool,
    /// The context that it was made in. Only streams of this context record it.
    context: usize,
    last: Mutex<Record>,
}

/// The point of a recorded event. Empty before the event is recorded.
#[derive(Clone, Default)]
struct Record {
    points: Vec<Point>,
    /// If it was recorded in a capture.
    mark: Option<Mark>,
    passed: Arc<OnceLock<Instant>>,
}

static EVENTS: Mutex<Table<Event>> = Mutex::new(Table::from(0xE700_0000));

pub(crate) fn find(handle: usize) -> Answer<Arc<Event>> {
    lock(&EVENTS).get(handle).ok_or(Status::INVALID_HANDLE)
}

impl Event {
    /// The points of its work, unless it was recorded in a capture.
    fn points(&self, is_for_time: bool) -> Answer<Vec<Point>> {
        let last = lock(&self.last);
        last.mark.as_ref().map_or(Ok(()), |mark| capture::refuse_event(mark, is_for_time))?;
        Ok(last.points.clone())
    }

    fn is_done(&self) -> Answer<bool> {
        let points = self.points(false)?;
        capture::forbid_unsafe()?;
        Ok(points.iter().all(Point::is_done))
    }

    fn record(&self, stream: usize) -> Answer {
        if streams::find(stream)?.context(stream) != self.context {
            return Err(Status::INVALID_HANDLE);
        }
        if let Some(mark) = capture::mark(&*streams::find(stream)?)? {
            *lock(&self.last) = Record { mark: Some(mark), ..Record::default() };
            return Ok(());
        }
        let passed = Arc::new(OnceLock::new());
        let stamp = passed.clone();
        let point = streams::submit(stream, move || {
            let _ = stamp.set(Instant::now());
        })?;
        *lock(&self.last) = Record { points: Vec::from([point]), mark: None, passed };
        Ok(())
    }

    /// Lets a stream wait for the event.
    pub(crate) fn hold(&self, stream: usize) -> Answer {
        let Record { points, mark, .. } = lock(&self.last).clone();
        let found = streams::find(stream)?;
        if let Some(mark) = mark {
            return capture::join(&found, &mark);
        }
        // An event that was never recorded orders nothing.
        if points.is_empty() {
            return Ok(());
        }
        capture::isolate(&found)?;
        streams::submit(stream, move || points.iter().for_each(Point::wait)).map(drop)
    }

    fn passed(&self) -> Answer<Instant> {
        let points = self.points(true)?;
        if !self.is_timed {
            return Err(Status::INVALID_HANDLE);
        }
        if !points.iter().all(Point::is_done) {
            return Err(Status::NOT_READY);
        }
        lock(&self.last).passed.get().copied().ok_or(Status::INVALID_HANDLE)
    }
}

fn elapsed(milliseconds: &Out<f32>, start: usize, end: usize) -> Answer {
    let (start, end) = (find(start)?.passed()?, find(end)?.passed()?);
    milliseconds.put(end.saturating_duration_since(start).as_secs_f32() * 1000.0)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventCreate(event: Out<usize>, flags: c_uint) -> Status {
    answer("cuEventCreate", || {
        context::require()?;
        let new = Event { is_timed: flags & DISABLE_TIMING == 0, context: context::current(), last: Mutex::default() };
        event.put(lock(&EVENTS).add(Arc::new(new)))
    })
}

/// Streams that wait for the event go on waiting.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventDestroy_v2(event: usize) -> Status {
    answer("cuEventDestroy_v2", || lock(&EVENTS).remove(event).map(drop).ok_or(Status::INVALID_HANDLE))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventRecord(event: usize, stream: usize) -> Status {
    answer("cuEventRecord", || find(event)?.record(stream))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventQuery(event: usize) -> Status {
    answer("cuEventQuery", || if find(event)?.is_done()? { Ok(()) } else { Err(Status::NOT_READY) })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventSynchronize(event: usize) -> Status {
    answer("cuEventSynchronize", || {
        let points = find(event)?.points(false)?;
        capture::forbid_unsafe()?;
        points.iter().for_each(Point::wait);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventElapsedTime(milliseconds: Out<f32>, start: usize, end: usize) -> Status {
    answer("cuEventElapsedTime", || elapsed(&milliseconds, start, end))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: usize, end: usize) -> Status {
    answer("cuEventElapsedTime_v2", || elapsed(&milliseconds, start, end))
}

/// Records the event behind all work of the context so far.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxRecordEvent(_context: usize, event: usize) -> Status {
    answer("cuCtxRecordEvent", || {
        let event = find(event)?;
        capture::forbid_any()?;
        *lock(&event.last) = Record { points: streams::ends(), ..Record::default() };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxWaitEvent(_context: usize, event: usize) -> Status {
    answer("cuCtxWaitEvent", || {
        let points = find(event)?.points(false)?;
        capture::forbid_any()?;
        streams::submit_to_all(move || points.iter().for_each(Point::wait))
    })
}
