//! The streams by handle, and the functions that give them work.
//!
//! The legacy default stream (0 and 1) and blocking streams wait for each other, as CUDA says. cudarc's own streams are not
//! blocking. The per-thread default stream (2) is a blocking stream that each thread has for itself.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, Weak};

use crate::answer::{Answer, Status, lock};
use crate::queue::{Point, Queue};
use crate::table::Table;
use crate::{capture, context};

/// How a stream and the legacy default stream are related.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Legacy,
    Blocking,
    NonBlocking,
}

pub(crate) struct Stream {
    queue: Arc<Queue>,
    pub(crate) id: u64,
    kind: Kind,
    /// The context that it was made in.
    context: usize,
}

impl Stream {
    pub(crate) fn is_legacy(&self) -> bool {
        self.kind == Kind::Legacy
    }

    pub(crate) fn is_blocking(&self) -> bool {
        self.kind == Kind::Blocking
    }

    /// Its context. All contexts share their default streams, so the handles of these stand for those of the current context.
    pub(crate) fn context(&self, handle: usize) -> usize {
        if handle <= 2 { context::current() } else { self.context }
    }
}

struct Streams {
    table: Table<Stream>,
    legacy: Option<Arc<Stream>>,
    /// The queues of all live streams, and of streams whose work is not done.
    queues: Vec<(Weak<Queue>, bool)>,
    made: u64,
}

static STREAMS: Mutex<Streams> =
    Mutex::new(Streams { table: Table::from(0x5700_0000), legacy: None, queues: Vec::new(), made: 0 });

/// The per-thread default stream of a thread. It ends with the thread.
struct Own(Arc<Stream>);

impl Drop for Own {
    fn drop(&mut self) {
        self.0.queue.close();
    }
}

thread_local! {
    static OWN: RefCell<Option<Own>> = const { RefCell::new(None) };
}

impl Streams {
    fn make(&mut self, kind: Kind) -> Answer<Arc<Stream>> {
        let queue = Queue::start()?;
        self.made += 1;
        self.queues.retain(|(queue, _)| queue.strong_count() > 0);
        self.queues.push((Arc::downgrade(&queue), kind == Kind::Blocking));
        Ok(Arc::new(Stream { queue, id: self.made, kind, context: context::current() }))
    }

    fn legacy(&mut self) -> Answer<Arc<Stream>> {
        if let Some(legacy) = &self.legacy {
            return Ok(legacy.clone());
        }
        let legacy = self.make(Kind::Legacy)?;
        Ok(self.legacy.insert(legacy).clone())
    }

    fn own(&mut self) -> Answer<Arc<Stream>> {
        let own = OWN.try_with(|own| match &mut *own.borrow_mut() {
            Some(own) => Ok(own.0.clone()),
            empty => Ok(empty.insert(Own(self.make(Kind::Blocking)?)).0.clone()),
        });
        // The thread's own stream has ended. The legacy stream waits for all of its work.
        own.unwrap_or_else(|_| self.legacy())
    }

    fn find(&mut self, handle: usize) -> Answer<Arc<Stream>> {
        match handle {
            0 | 1 => context::require().and_then(|()| self.legacy()),
            2 => context::require().and_then(|()| self.own()),
            _ => self.table.get(handle).ok_or(Status::INVALID_HANDLE),
        }
    }

    /// The points where the work of blocking streams ends, or of all streams.
    fn ends(&self, is_all: bool) -> Vec<Point> {
        let chosen = self.queues.iter().filter(|(_, is_blocking)| is_all || *is_blocking);
        let ends = chosen.filter_map(|(queue, _)| Some(queue.upgrade()?.end()));
        ends.filter(|end| !end.is_done()).collect()
    }

    /// The points that new work of a stream must wait for by the rules of the legacy default stream.
    fn implied(&self, stream: &Arc<Stream>) -> Vec<Point> {
        match &self.legacy {
            Some(legacy) if Arc::ptr_eq(legacy, stream) => self.ends(false),
            Some(legacy) if stream.is_blocking() => Vec::from([legacy.queue.end()]),
            _ => Vec::new(),
        }
    }

    fn submit(&mut self, stream: &Arc<Stream>, task: impl FnOnce() + Send + 'static) -> Point {
        let before: Vec<Point> = self.implied(stream).into_iter().filter(|point| !point.is_done()).collect();
        if !before.is_empty() {
            stream.queue.push(move || before.iter().for_each(Point::wait));
        }
        stream.queue.push(task);
        stream.queue.end()
    }
}

pub(crate) fn create(is_blocking: bool) -> Answer<usize> {
    context::require()?;
    let mut streams = lock(&STREAMS);
    let stream = streams.make(if is_blocking { Kind::Blocking } else { Kind::NonBlocking })?;
    Ok(streams.table.add(stream))
}

/// Destroys a stream. Its work goes on to the end.
pub(crate) fn destroy(handle: usize) -> Answer {
    let stream = lock(&STREAMS).table.remove(handle).ok_or(Status::INVALID_HANDLE)?;
    capture::forget(&stream);
    stream.queue.close();
    Ok(())
}

pub(crate) fn find(handle: usize) -> Answer<Arc<Stream>> {
    lock(&STREAMS).find(handle)
}

/// Puts a task on a stream. Returns the point behind it. A stream that is being captured refuses the task.
pub(crate) fn submit(handle: usize, task: impl FnOnce() + Send + 'static) -> Answer<Point> {
    let mut streams = lock(&STREAMS);
    let stream = streams.find(handle)?;
    capture::refuse(&stream)?;
    Ok(streams.submit(&stream, task))
}

/// Whether all work of a stream is done, and everything that it has to wait for.
pub(crate) fn is_done(handle: usize) -> Answer<bool> {
    let mut streams = lock(&STREAMS);
    let stream = streams.find(handle)?;
    capture::refuse(&stream)?;
    Ok(stream.queue.end().is_done() && streams.implied(&stream).iter().all(Point::is_done))
}

/// The point behind all work of a stream, and behind everything that it has to wait for.
pub(crate) fn end(handle: usize) -> Answer<Point> {
    submit(handle, || ())
}

/// Puts a task on each stream that has a handle, and on the calling thread's stream.
pub(crate) fn submit_to_all(task: impl FnOnce() + Clone + Send + 'static) -> Answer {
    let mut streams = lock(&STREAMS);
    let mut all: Vec<Arc<Stream>> = streams.table.all().cloned().collect();
    all.push(streams.legacy()?);
    all.push(streams.own()?);
    for stream in all {
        streams.submit(&stream, task.clone());
    }
    Ok(())
}

/// The points where the work of all streams ends now.
pub(crate) fn ends() -> Vec<Point> {
    lock(&STREAMS).ends(true)
}

/// Waits for all present work.
pub(crate) fn synchronize() {
    // Taken first: running work may give more work, for which the lock is needed.
    let ends = ends();
    ends.iter().for_each(Point::wait);
}
