//! An erased stream of a device: the one thing through which the engine reaches a machine.
//!
//! Invariants: an id is given once per process and never again; what [`Stream::allocate`] gave goes back by
//! [`Stream::release`] exactly once; a failure inside a drop or late work is kept here and returned by [`Stream::check`].
#![allow(unsafe_code)]

mod by_thread;
mod bytes;
pub(super) mod lane;
mod reserved;

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, PoisonError};

use self::by_thread::Find;
use self::reserved::Reserved;
use super::backend::Backend;
use super::memory::Memory;
use super::meter::Meter;
use crate::base::error::{Error, Result};
use crate::base::sync::{Mutex, MutexGuard};

/// One stream of one device, without its type. Cheap to clone; equal ids are the same stream.
///
/// ```
/// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
/// use {gpucache::device::Device, plain::{Desk, Plain}}; // as in the example of `Backend`
/// let desk = Desk::new(); // the handle in the example of `Backend`
/// assert!(desk.stream_handle().backend::<Plain>().is_some());
/// ```
#[derive(Clone)]
pub struct Stream(Arc<StreamState>);

/// A stream that is remembered without being kept alive.
pub(crate) struct WeakStream(std::sync::Weak<StreamState>);

struct StreamState {
    id: u64,
    /// The id of the stream through which its work goes: its own, unless it is a reservation's.
    queue: u64,
    memory: Arc<Memory>,
    watches: bool,
    runs_closures: bool,
    can_capture: bool,
    /// The id, unless a call has more to do than its work: there is a notice, or the device watches.
    ready_id: AtomicU64,
    /// The epoch of the stream's work now, as the layer above numbers them, or a later one; 0 if it does not.
    epoch: Arc<AtomicU64>,
    /// Whether another thread wants the open epoch to end.
    wanted: Arc<AtomicBool>,
    /// Whether there is anything in `notice`, or memory is reserved.
    has_notice: AtomicBool,
    notice: Mutex<Notice>,
    reserved: Option<Reserved>,
    by_thread: Option<Find>,
    backend: Arc<dyn Backend>,
}

/// What a call has to see to before its work.
#[derive(Default)]
struct Notice {
    failure: Option<Error>,
    /// The stream by which whatever is allocated now is reserved.
    reservation: Option<Stream>,
}

/// The id of the next stream: they are counted, and so never given again.
static NEXT_STREAM: AtomicU64 = AtomicU64::new(1);
/// What a stream that is not ready gives out as its id: none has it, as there are never so many.
const NOT_READY: u64 = u64::MAX;

fn ready_id(id: u64, watches: bool) -> u64 {
    if watches { NOT_READY } else { id }
}

impl Stream {
    /// A stream of its own over `backend`; streams of one device share a `memory`.
    ///
    /// # Safety
    /// What `memory` maps is usable by `backend`, and so is what the backends of other streams over it allocate: they are
    /// of one device. Memory changes hands between streams that share it, and arrays are copied between them.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::{Memory, Stream}, plain::Plain}; // as in the example of `Backend`
    /// // SAFETY: this memory maps nothing, and no other stream shares it.
    /// let stream = unsafe { Stream::new(Memory::default().into(), Plain) };
    /// ```
    pub unsafe fn new(memory: Arc<Memory>, backend: impl Backend) -> Stream {
        Stream::over(memory, Arc::new(backend), None)
    }

    /// As [`new`](Stream::new), on the queue of another stream if there is one. This crate or a backend made the backend.
    pub(super) fn over(memory: Arc<Memory>, backend: Arc<dyn Backend>, queue: Option<u64>) -> Stream {
        super::exit::watch();
        memory.note_stream();
        let (watches, runs_closures, can_capture) = (backend.watches(), backend.runs_closures(), backend.can_capture());
        let (id, refusal) = (NEXT_STREAM.fetch_add(1, Relaxed), memory.take_refusal());
        let stream = Stream(Arc::new(StreamState {
            id,
            queue: queue.unwrap_or(id),
            memory,
            watches,
            runs_closures,
            can_capture,
            ready_id: AtomicU64::new(ready_id(id, watches)),
            epoch: Arc::default(),
            wanted: Arc::default(),
            has_notice: AtomicBool::new(false),
            notice: Mutex::default(),
            reserved: None,
            by_thread: None,
            backend,
        }));
        // A program that was to be limited does not run without.
        refusal.into_iter().for_each(|error| stream.refuse_next(error));
        stream
    }

    fn notice(&self) -> MutexGuard<'_, Notice> {
        self.0.notice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets calls know whether they have something to see to.
    fn tell(&self, notice: &Notice) {
        let is_special = self.is_reserved() || self.0.by_thread.is_some();
        let has_notice = is_special || notice.failure.is_some() || notice.reservation.is_some();
        self.0.has_notice.store(has_notice, Relaxed);
        self.0.ready_id.store(ready_id(self.0.id, self.0.watches || has_notice), Relaxed);
    }

    /// The backend, if it is a `B`.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::{Device, Host}, plain::Plain}; // as in the example of `Backend`
    /// assert!(Host::new().stream_handle().backend::<Plain>().is_none()); // that is another one's
    /// ```
    pub fn backend<B: Backend>(&self) -> Option<&B> {
        let backend: &dyn Any = &*self.0.backend;
        backend.downcast_ref()
    }

    /// The backend, for handles that know what it is: each use of an array in a launch asks for it.
    ///
    /// # Safety
    /// The stream was made over a `B`.
    #[cfg(feature = "cuda")]
    #[inline]
    pub(super) unsafe fn backend_unchecked<B: Backend>(&self) -> &B {
        // SAFETY: the caller promises that the stream was made over a `B`, which is what the pointer leads to then, as
        // the stream never gets another backend. It holds that for as long as `self` is borrowed.
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

    /// Names the queue through which the work goes: streams with the same are in order with each other.
    #[doc(hidden)]
    #[inline]
    pub fn queue(&self) -> u64 {
        self.0.queue
    }

    /// Names the device, for the life of the process.
    #[doc(hidden)]
    pub fn memory_id(&self) -> u64 {
        self.0.memory.id()
    }

    #[doc(hidden)]
    pub fn meter(&self) -> &Meter {
        self.0.memory.meter()
    }

    /// Returns what an earlier drop or late work on this stream could not.
    #[doc(hidden)]
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.has_notice() { self.take_failure() } else { Ok(()) }
    }

    /// Whether a call has a failure to return first, or memory is reserved.
    #[inline]
    pub(crate) fn has_notice(&self) -> bool {
        self.0.has_notice.load(Relaxed)
    }

    /// Returns what something below the backend could not.
    #[doc(hidden)]
    pub fn check_kept(&self) -> Result<()> {
        self.0.backend.kept_failure()
    }

    /// The id, or none that a stream has if [`check`](Stream::check) or [`handed_out`](Stream::handed_out) has something
    /// to do.
    #[inline]
    pub(crate) fn ready_id(&self) -> u64 {
        self.0.ready_id.load(Relaxed)
    }

    #[cold]
    fn take_failure(&self) -> Result<()> {
        let mut notice = self.notice();
        let failure = notice.failure.take();
        self.tell(&notice);
        failure.map_or(Ok(()), Err)
    }

    /// Keeps the first failure that a drop or late work met, for [`check`](Stream::check).
    #[doc(hidden)]
    pub fn keep(&self, error: Error) {
        self.refuse_next(error.deferred());
    }

    /// Lets the next fallible call return this.
    pub(crate) fn refuse_next(&self, error: Error) {
        let mut notice = self.notice();
        notice.failure.get_or_insert(error);
        self.tell(&notice);
    }

    /// As [`Backend::release_reserve`]. Nothing while a graph is captured.
    pub(crate) fn release_reserve(&self) -> Result<bool> {
        if self.is_capturing() { Ok(false) } else { self.0.backend.release_reserve() }
    }

    #[doc(hidden)]
    pub fn synchronize(&self) -> Result<()> {
        self.check_kept()?;
        self.0.backend.synchronize()?;
        // What the work met may have been kept only now.
        self.check()
    }

    /// As [`Backend::runs_closures`].
    #[inline]
    pub(crate) fn runs_closures(&self) -> bool {
        self.0.runs_closures
    }

    /// The epoch in which work that was put on the stream before this call is, at the latest; 0 if nobody counts.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.0.epoch.load(SeqCst)
    }

    /// Where whoever counts the stream's epochs tells the next one, before the one that is open ends.
    pub(crate) fn epoch_cell(&self) -> &Arc<AtomicU64> {
        &self.0.epoch
    }

    /// Whether another thread wants the open epoch to end, which whoever works on the stream sees to.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.wanted.load(Relaxed)
    }

    /// Where others ask for the end of the open epoch. Calls no device.
    pub(crate) fn wanted_cell(&self) -> &Arc<AtomicBool> {
        &self.0.wanted
    }

    /// Whether work that is put on the stream is captured into a graph now.
    #[doc(hidden)]
    pub fn is_capturing(&self) -> bool {
        self.0.backend.is_capturing()
    }

    /// As [`Backend::can_capture`].
    #[doc(hidden)]
    pub fn can_capture(&self) -> bool {
        self.0.can_capture
    }

    /// Whether a graph is captured on the stream for which nothing is reserved, so that its memory would become others'.
    pub(crate) fn captures_unannounced(&self) -> bool {
        self.is_capturing() && self.reservation().is_none()
    }

    /// Orders later work behind all that is on another stream of the device now, by an event of its own.
    pub(crate) fn follow(&self, other: &Stream) -> Result<()> {
        let event = other.0.backend.new_event()?;
        other.0.backend.record(&*event)?;
        self.0.backend.wait(&*event)
    }

    /// The backend, for those who need it longer than the stream is in use.
    pub(crate) fn shared_backend(&self) -> &Arc<dyn Backend> {
        &self.0.backend
    }

    /// Whether the device wants to know what becomes of each block.
    #[inline]
    pub(crate) fn watches(&self) -> bool {
        self.0.watches
    }

    /// Tells a device that watches of a block in use.
    #[cold]
    pub(crate) fn handed_out(&self, address: u64, bytes: usize) {
        if let Err(error) = self.0.backend.handed_out(address, bytes) {
            self.keep(error);
        }
    }

    /// Tells a device that watches of a block that is no longer in use.
    #[cold]
    pub(crate) fn taken_back(&self, address: u64, bytes: usize) {
        if let Err(error) = self.0.backend.taken_back(address, bytes) {
            self.keep(error);
        }
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
