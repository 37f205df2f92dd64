//! The work of one stream: a queue, and a thread that does the work in order.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::answer::{Answer, Status, lock};

type Task = Box<dyn FnOnce() + Send>;

/// Enough for a copy, a fill, or a small function of a program.
const STACK: usize = 256 << 10;

pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    /// The tasks that were ever given, and below, how many of them are done.
    given: u64,
    done: u64,
    is_closed: bool,
}

impl Queue {
    /// A queue with its thread, which ends once the queue is closed and empty.
    pub(crate) fn start() -> Answer<Arc<Queue>> {
        let queue = Arc::new(Queue { state: Mutex::default(), changed: Condvar::new() });
        let worker = queue.clone();
        let thread = std::thread::Builder::new().name("stream".into()).stack_size(STACK);
        thread.spawn(move || worker.work()).map_err(|_| Status::OUT_OF_MEMORY)?;
        Ok(queue)
    }

    fn work(&self) {
        while let Some(task) = self.next() {
            // A task that panics counts as done, so later tasks and waiting threads go on.
            let _ = catch_unwind(AssertUnwindSafe(task));
            lock(&self.state).done += 1;
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<Task> {
        let is_idle = |state: &mut State| state.tasks.is_empty() && !state.is_closed;
        let waited = self.changed.wait_while(lock(&self.state), is_idle);
        waited.unwrap_or_else(PoisonError::into_inner).tasks.pop_front()
    }

    pub(crate) fn push(&self, task: impl FnOnce() + Send + 'static) {
        let mut state = lock(&self.state);
        state.tasks.push_back(Box::new(task));
        state.given += 1;
        self.changed.notify_all();
    }

    pub(crate) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_all();
    }

    /// The point where the queue's work ends now.
    pub(crate) fn end(self: &Arc<Queue>) -> Point {
        Point { queue: self.clone(), given: lock(&self.state).given }
    }
}

/// A point in a stream's work: behind the first `given` tasks of a queue.
#[derive(Clone)]
pub(crate) struct Point {
    queue: Arc<Queue>,
    given: u64,
}

impl Point {
    pub(crate) fn is_done(&self) -> bool {
        lock(&self.queue.state).done >= self.given
    }

    /// Waits until the work before the point is done. The wait does not cover later work, so it ends.
    pub(crate) fn wait(&self) {
        let is_open = |state: &mut State| state.done < self.given;
        drop(self.queue.changed.wait_while(lock(&self.queue.state), is_open));
    }
}
