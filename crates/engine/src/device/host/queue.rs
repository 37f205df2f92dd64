//! A queue of work and the thread that does it, one piece after the other.
//!
//! Invariants: pieces are numbered from 1 in the order in which they are done, `queued` is the number of the last one in
//! the queue, and `done` of the last one that ended, by a panic too. Every piece is done while the process lives: the
//! thread ends only once the queue is empty and nobody can put anything on it. A piece that the crate makes waits only
//! for work that was queued before it was, so that no circle of streams waits for itself.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, ThreadId, current};

use crate::base::error::{Error, Result, panic_text};
use crate::base::held::assert_nothing_held;
use crate::base::sync::{Condvar, Mutex, OnceLock};
use crate::device::stream::WeakStream;

type Work = Box<dyn FnOnce() + Send>;

/// The end that work is put on. When it is dropped, the thread finishes what is there and ends.
pub(super) struct Queue {
    /// Locked so that numbers and places are the same.
    end: Mutex<Sender<Work>>,
    progress: Arc<Progress>,
}

/// How far a queue's work is.
#[derive(Default)]
pub(super) struct Progress {
    queued: AtomicU64,
    done: AtomicU64,
    /// Held between a look at `done` and a sleep, so that no end of work falls between them.
    sleep: Mutex<()>,
    ended: Condvar,
    worker: OnceLock<ThreadId>,
    /// Where failures are kept, as long as it lives.
    stream: OnceLock<WeakStream>,
}

impl Queue {
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) if the system gives no thread.
    pub(super) fn start() -> Result<Queue> {
        let (end, pieces) = channel();
        let progress = Arc::new(Progress::default());
        let own = progress.clone();
        let thread = Builder::new().name("gpucache host stream".into()).spawn(move || own.work(&pieces));
        let thread = thread.map_err(|error| {
            Error::unavailable("another stream of the host", error, "drop streams, or work on `Host::new()`")
        })?;
        let _ = progress.worker.set(thread.thread().id());
        Ok(Queue { end: Mutex::new(end), progress })
    }

    /// Keeps failures in this stream from now on.
    pub(super) fn report_to(&self, stream: WeakStream) {
        let _ = self.progress.stream.set(stream);
    }

    pub(super) fn push(&self, work: impl FnOnce() + Send + 'static) {
        let work: Work = Box::new(work);
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        self.progress.queued.fetch_add(1, SeqCst);
        let sent = end.send(work);
        drop(end);
        // The thread takes work for as long as there is a queue to put it on.
        if let Err(SendError(work)) = sent {
            self.progress.run(work);
        }
    }

    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }
}

impl Progress {
    fn work(&self, pieces: &Receiver<Work>) {
        pieces.iter().for_each(|piece| self.run(piece));
    }

    fn run(&self, work: Work) {
        assert_nothing_held();
        if let Err(reason) = catch_unwind(AssertUnwindSafe(work)) {
            self.keep(Error::panicked(panic_text(&*reason)));
            // Its drop could panic as well.
            std::mem::forget(reason);
        }
        self.done.fetch_add(1, SeqCst);
        drop(self.sleep.lock().unwrap_or_else(PoisonError::into_inner));
        self.ended.notify_all();
    }

    pub(super) fn keep(&self, error: Error) {
        if let Some(stream) = self.stream.get().and_then(WeakStream::upgrade) {
            stream.keep(error);
        }
    }

    /// What [`keep`](Progress::keep) kept.
    pub(super) fn check(&self) -> Result<()> {
        self.stream.get().and_then(WeakStream::upgrade).map_or(Ok(()), |stream| stream.check())
    }

    /// The number of the last piece in the queue.
    #[inline]
    pub(super) fn queued(&self) -> u64 {
        self.queued.load(SeqCst)
    }

    /// Whether the piece of this number has ended, and so all before it.
    #[inline]
    pub(super) fn is_done(&self, piece: u64) -> bool {
        self.done.load(SeqCst) >= piece
    }

    /// Sleeps until the piece of this number has ended.
    pub(super) fn wait(&self, piece: u64) {
        let mut sleep = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_done(piece) {
            sleep = self.ended.wait(sleep).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until all is done that is in the queue now. A piece of this queue cannot wait for what is behind it.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) for a piece that has others behind it.
    #[inline]
    pub(super) fn finish(&self) -> Result<()> {
        let last = self.queued();
        if self.is_done(last) { Ok(()) } else { self.finish_late(last) }
    }

    #[cold]
    fn finish_late(&self, last: u64) -> Result<()> {
        match self.worker.get() == Some(&current().id()) {
            false => self.wait(last),
            // The piece that asks is the first that is not done.
            true if self.is_done(last - 1) => {}
            true => {
                return Err(Error::unavailable(
                    "an array's contents",
                    "work of its own stream asks for them, and more work is queued behind",
                    "pass the array to `launch`, which lends its contents to the work",
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue {:?}", self.progress)
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} done", self.done.load(SeqCst), self.queued())
    }
}
