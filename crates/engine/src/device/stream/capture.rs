//! Captures of a stream: the note that its work is captured now, and the list of operations of a device that has no captures of its own.
//!
//! While a stream is captured, its allocations take the paths that look at notices ([`Stream::has_notice`]).

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{ThreadId, current};

use super::{Notice, Stream};
use crate::base::error::{Error, Result};
use crate::base::per_thread::THREAD;
use crate::base::sync::{Mutex, lock};

/// Runs `act`, whose calls touch no captured stream. Within it, a driver allows them although another thread captures a graph.
pub(crate) fn relaxed<R>(act: impl FnOnce() -> R) -> R {
    #[cfg(feature = "cuda")]
    return crate::device::Handle::in_relaxed_capture(act);
    #[cfg(not(feature = "cuda"))]
    act()
}

/// How the work of a stream is captured.
#[derive(Clone)]
pub(in crate::device) enum CaptureBy {
    /// The driver captures it, and runs nothing of it. Only this thread may put work on the stream.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    Driver(ThreadId),
    /// Other code captures it by the driver, and this crate serves the capture.
    Other,
    /// This crate lists the operations of this thread, and runs each as usual. Operations of others are no part of the work.
    Listing(ThreadId, Arc<Mutex<Listed>>),
}

/// The operations of a stream since its capture began.
#[derive(Default)]
pub(in crate::device) struct Listed {
    /// Each operation with its addresses.
    pub(in crate::device) operations: Vec<(Vec<Word>, Operation)>,
    /// Why the list does not stand for the work, if so.
    pub(in crate::device) gap: Option<&'static str>,
}

/// One operation that can run again, with other addresses.
pub(in crate::device) enum Operation {
    /// Fills the bytes at its address with a pattern.
    Fill(Vec<u8>),
    /// Copies the bytes at the first address to the second one.
    Copy,
    /// A function of the host, with the address of each array.
    Kernel(RunKernel),
}

/// Puts a function on its stream, with these addresses in place of those of its arrays. The second argument is the one of
/// [`LaunchableGraph::launch`](crate::device::LaunchableGraph::launch).
type RunKernel = Box<dyn Fn(&[u64], &dyn Any) -> Result<()> + Send>;

/// Why a capture was given up.
const SHORT: &str = "a drop of memory that a request in a shortage needs";

impl Notice {
    /// Whether this crate makes the driver capture the stream: for a captured scope, or for a graph with memory of its own.
    fn is_of_driver(&self) -> bool {
        self.reservation.is_some() || matches!(self.capture, Some(CaptureBy::Driver(_)))
    }
}

/// How many streams of the process are captured, as far as is known.
static CAPTURES: AtomicUsize = AtomicUsize::new(0);

/// How many of them other code has begun.
static OTHER_CAPTURES: AtomicUsize = AtomicUsize::new(0);

impl Stream {
    /// Whether any stream is captured, as far as is known. A thread that captures sees its own capture here.
    #[doc(hidden)]
    #[inline]
    pub fn is_any_in_capture() -> bool {
        CAPTURES.load(Relaxed) > 0
    }

    /// Whether other code captures any stream, which may have no handle, as far as is known.
    pub(crate) fn is_other_in_capture() -> bool {
        OTHER_CAPTURES.load(Relaxed) > 0
    }

    /// Notes that other code captures some stream until [`end_other_capture`](Stream::end_other_capture). This crate may not know that stream.
    #[doc(hidden)]
    pub fn begin_other_capture() {
        OTHER_CAPTURES.fetch_add(1, Relaxed);
        CAPTURES.fetch_add(1, Relaxed);
    }

    /// Undoes one [`begin_other_capture`](Stream::begin_other_capture).
    #[doc(hidden)]
    pub fn end_other_capture() {
        CAPTURES.fetch_sub(1, Relaxed);
        OTHER_CAPTURES.fetch_sub(1, Relaxed);
    }

    /// Notes that other code captures this stream, and gets memory for the capture, until [`end_served_capture`](Stream::end_served_capture).
    #[doc(hidden)]
    pub fn begin_served_capture(&self) {
        // A stream that is noted as captured already stays so.
        let _ = self.begin_capture(CaptureBy::Other);
    }

    /// Undoes [`begin_served_capture`](Stream::begin_served_capture).
    #[doc(hidden)]
    pub fn end_served_capture(&self) {
        if matches!(self.capture(), Some(CaptureBy::Other)) {
            self.end_capture();
        }
    }

    /// Begins to note that the stream is captured.
    pub(in crate::device) fn begin_capture(&self, by: CaptureBy) -> Result<()> {
        let mut notice = self.notice();
        self.refuse_second_capture(&notice)?;
        (notice.capture, notice.has_refused) = (Some(by), false);
        CAPTURES.fetch_add(1, Relaxed);
        self.tell(&notice);
        Ok(())
    }

    /// Refuses a capture or a reservation beside another one.
    pub(super) fn refuse_second_capture(&self, notice: &Notice) -> Result<()> {
        if notice.capture.is_some() || notice.reservation.is_some() || self.is_reserved() {
            return Err(Error::unavailable(
                "a capture of the stream",
                "the stream is captured already",
                "end that capture first, or capture another stream",
            ));
        }
        Ok(())
    }

    /// Ends the note. Values that were kept are dropped now, so the driver must have ended the capture.
    pub(in crate::device) fn end_capture(&self) {
        let mut notice = self.notice();
        if notice.capture.take().is_some() {
            CAPTURES.fetch_sub(1, Relaxed);
        }
        self.tell(&notice);
        let kept = std::mem::take(&mut notice.kept);
        drop(notice);
        drop(kept);
    }

    /// Keeps a value until the capture ends. Its drop may call the driver, which a capture does not allow. And another array could get the
    /// address of an input that the block drops: a graph would then take that array for the input. Returns the value if this crate does not
    /// capture the stream.
    pub(crate) fn keep_captured<T: Any + Send>(&self, what: Box<T>) -> Result<(), Box<T>> {
        let mut notice = self.notice();
        let keeps = match &notice.capture {
            Some(CaptureBy::Driver(_)) => true,
            Some(CaptureBy::Listing(_, list)) => lock(list).gap != Some(SHORT),
            Some(CaptureBy::Other) | None => false,
        };
        if !keeps {
            return Err(what);
        }
        notice.kept.push(what);
        Ok(())
    }

    /// Whether this crate makes the driver capture the stream.
    #[inline]
    pub(crate) fn is_captured_here(&self) -> bool {
        self.has_notice() && self.notice().is_of_driver()
    }

    /// Keeps a value until the driver ends the capture. Returns the value if this crate makes the driver capture nothing on the stream.
    pub(crate) fn keep_behind_capture<T: Any + Send>(&self, what: Box<T>) -> Result<(), Box<T>> {
        let mut notice = self.home().notice();
        if !notice.is_of_driver() {
            return Err(what);
        }
        notice.kept.push(what);
        Ok(())
    }

    /// Drops the values that are kept until the capture ends, since memory is short. The work is done all the same, but gets no graph. Returns
    /// whether there were any. The driver does none of the work that it captures, so its captures stay.
    pub(crate) fn give_up_listing(&self) -> bool {
        let mut notice = self.notice();
        let Some(CaptureBy::Listing(_, list)) = &notice.capture else { return false };
        lock(list).gap = Some(SHORT);
        let kept = std::mem::take(&mut notice.kept);
        drop(notice);
        !kept.is_empty()
    }

    /// Refuses work of other threads while the driver captures the stream: it would become a part of the graph, or be lost. Callers ask before
    /// the work and after it, since a capture may begin in between. While no stream is captured, this is one load.
    #[doc(hidden)]
    #[inline]
    pub fn check_thread(&self) -> Result<()> {
        if Stream::is_any_in_capture() { self.check_captures() } else { Ok(()) }
    }

    /// Checks the thread again behind an operation, and adds the operation to the list of a capture. `make` is called only if there is one.
    #[inline]
    pub(super) fn note_done(&self, make: impl FnOnce() -> (Vec<Word>, Operation)) -> Result<()> {
        if Stream::is_any_in_capture() {
            self.check_captures()?;
            self.list(make);
        }
        Ok(())
    }

    /// Whether this thread put work on a stream that was not captured since the last call.
    pub(in crate::device) fn take_other_work() -> bool {
        THREAD.with(|thread| thread.has_other_work.take())
    }

    #[cold]
    fn check_captures(&self) -> Result<()> {
        match self.capture() {
            Some(CaptureBy::Driver(thread)) if thread != current().id() => Err(Error::unavailable(
                "the stream",
                "another thread captures it for a captured scope",
                "use a stream for each thread, or try again once that run has returned",
            )),
            Some(_) => Ok(()),
            None => {
                // If this thread captures another stream, the graph lacks this work.
                THREAD.with(|thread| thread.has_other_work.set(true));
                Ok(())
            }
        }
    }

    /// How the stream is captured now, if it is.
    #[inline]
    fn capture(&self) -> Option<CaptureBy> {
        if self.has_notice() { self.notice().capture.clone() } else { None }
    }

    /// The list to which this thread's operations are added, if any. Those of another thread may be a part of the block, or of other work,
    /// so they are a gap.
    fn own_list(&self) -> Option<Arc<Mutex<Listed>>> {
        match self.capture()? {
            CaptureBy::Listing(thread, list) if thread == current().id() => Some(list),
            CaptureBy::Listing(_, list) => {
                lock(&list).gap.get_or_insert("work that another thread put on the stream meanwhile");
                None
            }
            CaptureBy::Driver(_) | CaptureBy::Other => None,
        }
    }

    /// Whether this crate captures the stream into a graph of a scope.
    #[doc(hidden)]
    pub fn is_in_capture(&self) -> bool {
        self.capture().is_some()
    }

    /// Refuses memory that the plan of a captured scope does not have.
    pub(crate) fn refuse_in_capture(&self) -> Result<()> {
        if matches!(self.capture(), Some(CaptureBy::Driver(_))) {
            self.notice().has_refused = true;
            return Err(Error::unavailable(
                "an array beside the plan of a captured scope",
                "a graph has addresses for planned arrays only",
                "let the error through: the captured scope then runs the block directly",
            ));
        }
        Ok(())
    }

    /// Whether the capture refused an array.
    pub(in crate::device) fn has_refused(&self) -> bool {
        self.notice().has_refused
    }

    /// Adds an operation to the list of a capture. `make` is called only if there is one.
    #[cold]
    fn list(&self, make: impl FnOnce() -> (Vec<Word>, Operation)) {
        if let Some(list) = self.own_list() {
            let operation = make();
            lock(&list).operations.push(operation);
        }
    }

    /// Adds a function of the host that was put on the stream. `make` returns the addresses of its arrays. The second value puts the function on the stream once more: for other addresses of these arrays, and with the
    /// context that [`LaunchableGraph::launch`](crate::device::LaunchableGraph::launch) got.
    #[doc(hidden)]
    pub fn list_kernel<R>(&self, make: impl FnOnce() -> (Vec<Word>, R))
    where
        R: Fn(&[u64], &dyn Any) -> Result<()> + Send + 'static,
    {
        if Stream::is_any_in_capture() {
            self.list(|| {
                let (arrays, run) = make();
                (arrays, Operation::Kernel(Box::new(run)))
            });
        }
    }

    /// Notes that the stream has, or the host did, work that a list cannot have. The capture then gives no graph.
    #[doc(hidden)]
    #[inline]
    pub fn note_gap(&self, what: &'static str) {
        if self.has_notice()
            && let Some(list) = self.own_list()
        {
            lock(&list).gap.get_or_insert(what);
        }
    }

    /// Notes that work of one of the two streams waits for the other one. A launch would not repeat the wait.
    pub(crate) fn note_gap_between(&self, other: &Stream) {
        for stream in [self, other] {
            stream.note_gap("a wait of one stream for another one");
        }
    }

    /// Notes that the calling thread waits for the stream. A launch would not repeat the wait.
    pub(super) fn note_wait(&self) {
        if !Stream::is_any_in_capture() {
            return;
        }
        match self.capture() {
            Some(_) => self.note_gap("a wait for the stream"),
            None => THREAD.with(|thread| thread.has_other_work.set(true)),
        }
    }

    /// Notes that somebody gets an address in this stream's memory, and uses it without notice.
    pub(crate) fn note_unknown_work(&self) {
        self.memory().note_unknown_work();
        self.note_gap("work that uses the address of an array");
    }
}

/// A value in captured work that is, or may be, the address of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The value now.
    pub value: u64,
    /// Whether it is certainly an address. An argument of a kernel on a GPU may also be a number.
    pub is_address: bool,
    /// Whether the work is known to write there.
    pub is_written: bool,
    /// How many bytes the work uses from there on; 0 if this is not known.
    pub bytes: u64,
    /// The type of the elements there, if it is known.
    pub element: Option<TypeId>,
}

impl Word {
    /// An address, from which on the work uses so many bytes.
    pub(in crate::device) fn address(value: u64, bytes: usize, is_written: bool) -> Word {
        Word { value, is_address: true, is_written, bytes: bytes as u64, element: None }
    }
}

/// The error for work that a graph cannot have.
pub(in crate::device) fn uncapturable(what: &str) -> Error {
    Error::unavailable("a graph of the captured work", what, "leave this work out of the captured block")
}
