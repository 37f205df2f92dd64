//! A queue of work, and the thread that does one piece of it after the other.
//!
//! Invariants:
//! - Pieces are numbered from 1 in the order in which they run. `queued` is the number of the last piece in the queue. `done` is the number
//!   of the last piece that ended; a panic ends a piece too.
//! - Every piece runs while the process lives. The thread ends only once the queue is empty and nobody can put work on it.
//! - A piece gets no second slice of memory that it was lent, unless both are only read ([`LentSlices`]).
//! - A piece that this crate makes waits only for work that was queued before it. So streams cannot wait for each other in a circle.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, ThreadId, current};

use crate::base::error::{Error, Result};
use crate::base::held::assert_nothing_held;
use crate::base::panics::panic_of;
use crate::base::per_thread::THREAD;
use crate::base::sync::{Condvar, Mutex, OnceLock, lock};
use crate::device::stream::WeakStream;
use crate::device::stream::capture::Word;

type HostWork = Box<dyn FnOnce(&LentSlices) + Send>;

/// The memory of the slices that the running piece was lent. A piece can own an array that it was also lent, or an array that got the same
/// memory later.
#[derive(Debug, Default)]
pub struct LentSlices(Mutex<Vec<Word>>);

impl LentSlices {
    /// Notes what the running piece is lent, until it ends. `list` adds the memory of each slice.
    pub fn note(&self, list: impl FnOnce(&mut Vec<Word>)) {
        list(&mut lock(&self.0));
    }

    /// Whether the piece was lent a slice that excludes a slice of `wanted`.
    fn excludes(&self, wanted: &Word) -> bool {
        let is_in = |one: &Word, other: &Word| one.value < other.value + other.bytes;
        let meet = |lent: &Word| is_in(lent, wanted) && is_in(wanted, lent);
        lock(&self.0).iter().any(|lent| (lent.is_written || wanted.is_written) && meet(lent))
    }
}

/// The end of the queue that takes new work. After its drop, the thread finishes the remaining work and ends.
#[derive(Debug)]
pub(super) struct HostQueue {
    /// Locked so that the numbers follow the order of the queue.
    end: Mutex<Sender<HostWork>>,
    progress: Arc<Progress>,
}

/// How far the work of a queue has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    queued: AtomicU64,
    done: AtomicU64,
    /// Held between a check of `done` and a sleep, so that a piece that ends in between wakes the sleeper.
    sleep: Mutex<()>,
    ended: Condvar,
    worker: OnceLock<ThreadId>,
    lent: LentSlices,
    /// The stream that keeps failures, as long as it lives.
    stream: OnceLock<WeakStream>,
}

impl HostQueue {
    /// Starts a queue and its thread.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) if the system cannot start a thread.
    pub(super) fn start() -> Result<HostQueue> {
        let (end, pieces) = channel();
        let progress = Arc::new(Progress::default());
        let own = progress.clone();
        let thread = Builder::new().name("gpucache host stream".into()).spawn(move || own.work(&pieces));
        let thread = thread.map_err(|error| {
            Error::unavailable("another stream of the host", error, "drop streams, or work on `Host::new()`")
        })?;
        let _ = progress.worker.set(thread.thread().id());
        Ok(HostQueue { end: Mutex::new(end), progress })
    }

    /// Makes this stream keep later failures.
    pub(super) fn report_to(&self, stream: WeakStream) {
        let _ = self.progress.stream.set(stream);
    }

    pub(super) fn push(&self, work: impl FnOnce(&LentSlices) + Send + 'static) {
        let work: HostWork = Box::new(work);
        let end = lock(&self.end);
        self.progress.queued.fetch_add(1, SeqCst);
        let sent = end.send(work);
        drop(end);
        // This happens only if the thread no longer receives work, which it does as long as the queue exists.
        if let Err(SendError(work)) = sent {
            self.progress.run(work);
        }
    }

    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }
}

impl Progress {
    fn work(&self, pieces: &Receiver<HostWork>) {
        THREAD.with(|thread| thread.does_host_work.set(true));
        pieces.iter().for_each(|piece| self.run(piece));
    }

    fn run(&self, work: HostWork) {
        assert_nothing_held();
        if let Some(text) = panic_of(|| work(&self.lent)) {
            self.keep(Error::panicked(&text));
        }
        self.lent.note(Vec::clear);
        self.done.fetch_add(1, SeqCst);
        drop(lock(&self.sleep));
        self.ended.notify_all();
    }

    pub(super) fn keep(&self, error: Error) {
        if let Some(stream) = self.stream.get().and_then(WeakStream::upgrade) {
            stream.keep(error);
        }
    }

    /// Returns a failure that [`keep`](Progress::keep) kept.
    pub(super) fn check(&self) -> Result<()> {
        self.stream.get().and_then(WeakStream::upgrade).map_or(Ok(()), |stream| stream.check())
    }

    /// The number of the last piece in the queue.
    #[inline]
    pub(super) fn queued(&self) -> u64 {
        self.queued.load(SeqCst)
    }

    /// Whether the piece with this number has ended, and thus all pieces before it.
    #[inline]
    pub(super) fn is_done(&self, piece: u64) -> bool {
        self.done.load(SeqCst) >= piece
    }

    /// Sleeps until the piece with this number has ended.
    pub(super) fn wait(&self, piece: u64) {
        let mut sleep = lock(&self.sleep);
        while !self.is_done(piece) {
            sleep = self.ended.wait(sleep).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until all work that is in the queue now is done, for a caller that then uses the memory of `wanted`, if any. A piece of this queue
    /// cannot wait for pieces behind it.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) if a piece with others behind it calls this, or was lent the memory already.
    #[inline]
    pub(super) fn finish(&self, wanted: Option<Word>) -> Result<()> {
        let last = self.queued();
        if self.is_done(last) { Ok(()) } else { self.finish_late(last, wanted) }
    }

    #[cold]
    fn finish_late(&self, last: u64, wanted: Option<Word>) -> Result<()> {
        let refused = |reason, remedy| Err(Error::unavailable("an array's contents", reason, remedy));
        match self.worker.get() == Some(&current().id()) {
            false => self.wait(last),
            true if !self.is_done(last - 1) => {
                return refused(
                    "work of its own stream asks for them, and more work is queued behind",
                    "pass the array to `launch`, which lends its contents to the work",
                );
            }
            true if wanted.is_some_and(|wanted| self.lent.excludes(&wanted)) => {
                return refused("the work that asks for them was lent them", "use the slice that the work got");
            }
            // The calling piece itself is the only one that is not done.
            true => {}
        }
        Ok(())
    }
}
