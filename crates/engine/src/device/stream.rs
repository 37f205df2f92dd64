//! An untyped stream of a device. The engine reaches a machine only through streams.
//!
//! Invariants: an id is used once per process. Memory from [`Stream::allocate`] goes back by [`Stream::release`] exactly once. The stream
//! keeps a failure inside a drop or late work, and [`Stream::check`] returns it.
#![allow(unsafe_code)]

mod bytes;
pub(super) mod capture;
pub(super) mod copy_stream;
mod reserved;
mod user;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use self::capture::CaptureBy;
use self::reserved::{Kept, Reserved};
use super::backend::Backend;
use super::memory::Memory;
use super::meter::Meter;
use crate::base::error::{Error, Result};
use crate::base::sync::{Mutex, MutexGuard, lock};
pub(crate) use user::User;

/// One stream of one device, without its type. A clone is cheap. Handles with equal ids are the same stream.
///
/// ```
/// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
/// use {gpucache::device::Device, plain::{Desk, Plain}}; // as in the example of `Backend`
/// let desk = Desk::new(); // the handle in the example of `Backend`
/// assert!(desk.stream_handle().backend::<Plain>().is_some());
/// ```
#[derive(Clone)]
pub struct Stream(Arc<StreamState>);

/// A reference to a stream that does not keep it alive.
#[derive(Debug)]
pub(crate) struct WeakStream(std::sync::Weak<StreamState>);

struct StreamState {
    id: u64,
    /// The id of the stream whose queue does the work: its own id, except for the stream of a reservation.
    queue: u64,
    memory: Arc<Memory>,
    /// Dropped before `epoch`: a slot that sees no other reference to the epoch then has the last one to the backend (`order/slot`).
    backend: Arc<dyn Backend>,
    watches: bool,
    runs_closures: bool,
    can_capture: bool,
    /// The id of the stream, if a call only has to do its work. [`NOT_READY`] if a call must do more first: there is a notice, or the
    /// device watches.
    ready_id: AtomicU64,
    /// The current epoch of the stream's work, or a later one, as the folder `order` numbers epochs; 0 if it does not.
    epoch: Arc<AtomicU64>,
    /// Whether another thread requested the end of the open epoch.
    wanted: Arc<AtomicBool>,
    /// Whether `notice` has any content, or the stream's memory is reserved.
    has_notice: AtomicBool,
    notice: Mutex<Notice>,
    reserved: Option<Reserved>,
    by_thread: Option<Find>,
    /// How many handles are [`User`]s.
    users: Mutex<usize>,
}

/// Finds the calling thread's stream for a handle that stands for a different stream on each thread. Such a handle has no work and no memory
/// of its own. An allocation or a use through it goes to the stream of the calling thread.
type Find = fn(&Stream) -> Result<Stream>;

/// Matters that a call must handle before its work.
#[derive(Default)]
struct Notice {
    failure: Option<Error>,
    /// The stream of the reservation: it gets every allocation while the reservation is made.
    reservation: Option<Stream>,
    /// How the stream's work is captured for a scope now.
    capture: Option<CaptureBy>,
    /// Values that are dropped once the capture has ended. Its stream can free no memory before.
    kept: Kept,
    /// Whether an array was refused because the plan of the captured scope does not have it.
    has_refused: bool,
}

/// The id of the next stream. Ids count up, so no id is used twice.
static NEXT_STREAM: AtomicU64 = AtomicU64::new(1);
/// The id that a stream reports while it is not ready. No stream has it, since there are never that many.
const NOT_READY: u64 = u64::MAX;

fn ready_id(id: u64, watches: bool) -> u64 {
    if watches { NOT_READY } else { id }
}

impl Stream {
    /// A new stream over `backend`. Streams of one device share a `memory`.
    ///
    /// # Safety
    /// `backend` must be able to use the memory that `memory` maps, and the memory that the backends of other streams over `memory`
    /// allocate. So all of them belong to one device: memory moves between streams that share it, and arrays are copied between them.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::backend::{Memory, Stream}, plain::Plain}; // as in the example of `Backend`
    /// // SAFETY: this memory maps nothing, and no other stream shares it.
    /// let stream = unsafe { Stream::new(Memory::default().into(), Plain) };
    /// ```
    pub unsafe fn new(memory: Arc<Memory>, backend: impl Backend) -> Stream {
        Stream::over(memory, Arc::new(backend), None)
    }

    /// Like [`new`](Stream::new), but on the queue of another stream if `queue` names one. This crate made the backend, or another backend
    /// of this device made it.
    pub(super) fn over(memory: Arc<Memory>, backend: Arc<dyn Backend>, queue: Option<u64>) -> Stream {
        super::exit::watch();
        memory.note_stream();
        let refusal = memory.take_refusal();
        let stream = Stream::made(memory, backend, queue, Arc::default(), None);
        // A program that asked for a limit must not run without it, so the first call fails.
        refusal.into_iter().for_each(|error| stream.refuse_next(error));
        stream
    }

    fn made(
        memory: Arc<Memory>,
        backend: Arc<dyn Backend>,
        queue: Option<u64>,
        wanted: Arc<AtomicBool>,
        reserved: Option<Reserved>,
    ) -> Stream {
        let (watches, runs_closures, can_capture) = (backend.watches(), backend.runs_closures(), backend.can_capture());
        let (id, is_reserved) = (NEXT_STREAM.fetch_add(1, Relaxed), reserved.is_some());
        Stream(Arc::new(StreamState {
            id,
            queue: queue.unwrap_or(id),
            memory,
            watches,
            runs_closures,
            can_capture,
            ready_id: AtomicU64::new(ready_id(id, watches || is_reserved)),
            epoch: Arc::default(),
            wanted,
            has_notice: AtomicBool::new(is_reserved),
            notice: Mutex::default(),
            reserved,
            by_thread: None,
            users: Mutex::default(),
            backend,
        }))
    }

    fn notice(&self) -> MutexGuard<'_, Notice> {
        lock(&self.0.notice)
    }

    /// Updates the flags by which calls see whether they have something to do first.
    fn tell(&self, notice: &Notice) {
        let is_special = self.is_reserved() || self.0.by_thread.is_some();
        let is_captured = notice.reservation.is_some() || notice.capture.is_some();
        let has_notice = is_special || is_captured || notice.failure.is_some();
        self.0.has_notice.store(has_notice, Relaxed);
        self.0.ready_id.store(ready_id(self.0.id, self.0.watches || has_notice), Relaxed);
    }

    /// The backend, if its type is `B`.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::{Device, Host}, plain::Plain}; // as in the example of `Backend`
    /// assert!(Host::new().stream_handle().backend::<Plain>().is_none()); // its backend has another type
    /// ```
    pub fn backend<B: Backend>(&self) -> Option<&B> {
        let backend: &dyn Any = &*self.0.backend;
        backend.downcast_ref()
    }

    /// The backend, for handles that know its type. Each use of an array in a launch calls this.
    ///
    /// # Safety
    /// The stream was made over a `B`.
    #[cfg(feature = "cuda")]
    #[inline]
    pub(super) unsafe fn backend_unchecked<B: Backend>(&self) -> &B {
        // SAFETY: the caller promises that the stream was made over a `B`. A stream never changes its backend, so the pointer leads to a
        // `B`. The stream keeps the backend alive for as long as `self` is borrowed.
        unsafe { &*Arc::as_ptr(&self.0.backend).cast::<B>() }
    }

    pub(crate) fn downgrade(&self) -> WeakStream {
        WeakStream(Arc::downgrade(&self.0))
    }

    #[doc(hidden)]
    #[inline]
    pub fn id(&self) -> u64 {
        self.0.id
    }

    #[doc(hidden)]
    #[inline]
    pub fn memory(&self) -> &Arc<Memory> {
        &self.0.memory
    }

    /// The number of the queue that does the work. Streams with the same queue are in order with each other.
    #[doc(hidden)]
    #[inline]
    pub fn queue(&self) -> u64 {
        self.0.queue
    }

    /// The number of the device. No other device of the process gets it.
    #[doc(hidden)]
    pub fn memory_id(&self) -> u64 {
        self.0.memory.id()
    }

    #[doc(hidden)]
    pub fn meter(&self) -> &Meter {
        self.0.memory.meter()
    }

    /// Returns a failure that an earlier drop or late work on this stream could not return.
    #[doc(hidden)]
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.has_notice() { self.take_failure() } else { Ok(()) }
    }

    /// Whether a call has a failure to return first, or the stream's memory is reserved.
    #[inline]
    pub(crate) fn has_notice(&self) -> bool {
        self.0.has_notice.load(Relaxed)
    }

    /// Returns a failure that code below the backend could not return.
    #[doc(hidden)]
    pub fn check_kept(&self) -> Result<()> {
        self.0.backend.kept_failure()
    }

    /// The id of the stream. If [`check`](Stream::check) or [`handed_out`](Stream::handed_out) has something to do, this is a number that
    /// no stream has.
    #[inline]
    pub(crate) fn ready_id(&self) -> u64 {
        self.0.ready_id.load(Relaxed)
    }

    #[cold]
    fn take_failure(&self) -> Result<()> {
        let mut notice = self.home().notice();
        let failure = notice.failure.take();
        self.home().tell(&notice);
        failure.map_or(Ok(()), Err)
    }

    /// Keeps the first failure of a drop or late work, for [`check`](Stream::check).
    #[doc(hidden)]
    pub fn keep(&self, error: Error) {
        self.refuse_next(error.deferred());
    }

    /// Makes the next fallible call return this error. No call needs to ask the stream of a reservation, so its home keeps the error.
    pub(crate) fn refuse_next(&self, error: Error) {
        let mut notice = self.home().notice();
        notice.failure.get_or_insert(error);
        self.home().tell(&notice);
    }

    /// Calls [`Backend::release_reserve`], except while a graph is captured.
    pub(crate) fn release_reserve(&self) -> Result<bool> {
        if self.is_capturing() { Ok(false) } else { self.0.backend.release_reserve() }
    }

    #[doc(hidden)]
    pub fn synchronize(&self) -> Result<()> {
        self.check_kept()?;
        self.note_wait();
        self.0.backend.synchronize()?;
        // A failure of the work may have been kept only during the wait.
        self.check()
    }

    /// Returns [`Backend::runs_closures`].
    #[inline]
    pub(crate) fn runs_closures(&self) -> bool {
        self.0.runs_closures
    }

    /// The epoch that contains the last work put on the stream before this call, or a later epoch; 0 if epochs are not counted.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.0.epoch.load(SeqCst)
    }

    /// The counter of the stream's epochs. Its owner sets it to the next epoch before the open one ends.
    pub(crate) fn epoch_cell(&self) -> &Arc<AtomicU64> {
        &self.0.epoch
    }

    /// Whether another thread requested the end of the open epoch. The thread that works on the stream ends it.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.wanted.load(Relaxed)
    }

    /// The flag by which other threads request the end of the open epoch, without a call of the device.
    pub(crate) fn wanted_cell(&self) -> &Arc<AtomicBool> {
        &self.0.wanted
    }

    /// Whether a graph is capturing the stream's work now.
    #[doc(hidden)]
    pub fn is_capturing(&self) -> bool {
        self.0.backend.is_capturing()
    }

    /// Returns [`Backend::can_capture`].
    #[doc(hidden)]
    pub fn can_capture(&self) -> bool {
        self.0.can_capture
    }

    /// Whether a graph is being captured on the stream and no memory is reserved for it. Other arrays would then get memory that the graph
    /// uses.
    pub(crate) fn captures_unannounced(&self) -> bool {
        self.is_capturing() && self.reservation().is_none() && !self.is_in_capture()
    }

    /// Makes later work wait for all present work of another stream of the device. It uses a new event.
    pub(crate) fn follow(&self, other: &Stream) -> Result<()> {
        let event = other.0.backend.new_event()?;
        other.0.backend.record(&*event)?;
        self.0.backend.wait(&*event)
    }

    /// The backend, for owners that need it for longer than the stream lives.
    pub(crate) fn shared_backend(&self) -> &Arc<dyn Backend> {
        &self.0.backend
    }

    /// Whether the device wants to be told of each block that is handed out or comes back.
    #[inline]
    pub(crate) fn watches(&self) -> bool {
        self.0.watches
    }

    /// Tells a watching device of a block that is now in use.
    #[cold]
    pub(crate) fn handed_out(&self, address: u64, bytes: usize) {
        if let Err(error) = self.0.backend.handed_out(address, bytes) {
            self.keep(error);
        }
    }

    /// Tells a watching device of a block that is no longer in use.
    #[cold]
    pub(crate) fn taken_back(&self, address: u64, bytes: usize) {
        if let Err(error) = self.0.backend.taken_back(address, bytes) {
            self.keep(error);
        }
    }

    /// Makes `find` return the stream of each thread. The handle must not have been cloned yet.
    #[cfg(feature = "cuda")]
    pub(in crate::device) fn by_thread(mut self, find: Find) -> Stream {
        if let Some(state) = std::sync::Arc::get_mut(&mut self.0) {
            state.by_thread = Some(find);
        }
        self.tell(&Default::default());
        self
    }

    /// The calling thread's stream, if this handle stands for a different stream on each thread.
    ///
    /// # Errors
    /// If the thread has no stream because it is ending.
    #[doc(hidden)]
    #[inline]
    pub fn here(&self) -> Result<Option<Stream>> {
        self.0.by_thread.map_or(Ok(None), |find| find(self).map(Some))
    }
}

impl WeakStream {
    #[cfg(feature = "cuda")]
    pub(super) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    pub(crate) fn upgrade(&self) -> Option<Stream> {
        self.0.upgrade().map(Stream)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("id", &self.0.id).field("backend", &self.0.backend).finish()
    }
}
