//! An erased stream of a device: the one thing through which the engine reaches a machine.
//!
//! Invariants: an id is given once per process and never again; what [`Stream::allocate`] gave goes back by
//! [`Stream::release`] exactly once; a failure inside a drop is kept here and returned by [`Stream::check`].
#![allow(unsafe_code)]

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::exit::process_exits;
use super::memory::Memory;
use super::meter::Meter;
use crate::base::error::{Error, Result};

/// What a kind of machine implements: memory ordered by one stream, and the operations that arrays need on it.
///
/// Addresses are plain numbers, aligned to 256 bytes. All sizes are in bytes and never zero.
///
/// # Safety
/// [`allocate`](Backend::allocate) must return memory that nothing else uses and that stays valid until it is freed.
/// On a machine whose arrays are read through pointers ([`Host`](super::Host)) it must be ordinary memory of the process.
pub unsafe trait Backend: Any + fmt::Debug + Send + Sync {
    /// Memory for `bytes`, usable by work that is put on this stream from now on.
    ///
    /// # Errors
    /// [`Error::out_of_memory`] where memory may be had once other memory is given back; anything else as it is.
    fn allocate(&self, bytes: usize) -> Result<u64>;

    /// Gives memory back once the work that is on the stream now is done.
    ///
    /// # Errors
    /// What the device answered; the memory counts as gone either way.
    ///
    /// # Safety
    /// `address` came from `allocate(bytes)` of this stream, is freed once, and is not used by later work.
    unsafe fn free(&self, address: u64, bytes: usize) -> Result<()>;

    /// Writes `bytes` bytes: `pattern` again and again. `bytes` is a multiple of the length of `pattern`.
    ///
    /// # Errors
    /// What the device answered.
    ///
    /// # Safety
    /// `bytes` at `address` are allocated, and nothing else touches them before this is done.
    unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()>;

    /// Copies from the process's memory. `from` may be changed as soon as this returns.
    ///
    /// # Errors
    /// What the device answered.
    ///
    /// # Safety
    /// `bytes` at `from` are readable, `bytes` at `to` are allocated, and nothing else touches them before this is done.
    unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()>;

    /// Copies to the process's memory and waits until it is there.
    ///
    /// # Errors
    /// What the device answered, or what work on the stream met before.
    ///
    /// # Safety
    /// `bytes` at `from` are allocated, `bytes` at `to` are writable.
    unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()>;

    /// Copies within the device.
    ///
    /// # Errors
    /// What the device answered.
    ///
    /// # Safety
    /// `bytes` at both addresses are allocated and do not overlap; nothing else writes them before this is done.
    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()>;

    /// Waits until all work on the stream is done.
    ///
    /// # Errors
    /// What that work met.
    fn synchronize(&self) -> Result<()>;

    /// Makes later work of this stream wait for the work that is on `other` now, another stream of the same device.
    /// Unless it is told otherwise, the calling thread waits.
    ///
    /// # Errors
    /// What the device answered.
    fn wait_for(&self, other: &dyn Backend) -> Result<()> {
        other.synchronize()
    }

    /// Whether [`handed_out`](Backend::handed_out) and [`taken_back`](Backend::taken_back) are to be called: for devices
    /// that check what is done with their memory.
    fn watches(&self) -> bool {
        false
    }

    /// A block is in use from now on.
    ///
    /// # Errors
    /// What is wrong about it.
    fn handed_out(&self, _address: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }

    /// A block is no longer in use.
    ///
    /// # Errors
    /// What is wrong about it.
    fn taken_back(&self, _address: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }
}

/// One stream of one device, without its type. Cheap to clone; equal ids are the same stream.
#[derive(Clone)]
pub struct Stream(Arc<Inner>);

/// A stream that is remembered without being kept alive.
#[cfg(feature = "cuda")]
pub(super) struct WeakStream(std::sync::Weak<Inner>);

struct Inner {
    id: u64,
    memory: Arc<Memory>,
    watches: bool,
    /// The id, unless a call has more to do than its work: a drop failed, or the device watches.
    ready_id: AtomicU64,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
    backend: Arc<dyn Backend>,
}

/// No stream has this id.
const NOT_READY: u64 = u64::MAX;

fn ready_id(id: u64, watches: bool) -> u64 {
    if watches { NOT_READY } else { id }
}

impl Stream {
    /// A stream of its own over `backend`; streams of one device share a `memory`.
    pub fn new(memory: Arc<Memory>, backend: impl Backend) -> Stream {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        super::exit::watch();
        let id = NEXT.fetch_add(1, Relaxed);
        let watches = backend.watches();
        let (ready_id, failed) = (AtomicU64::new(ready_id(id, watches)), AtomicBool::new(false));
        let (failure, backend) = (Mutex::new(None), Arc::new(backend));
        Stream(Arc::new(Inner { id, memory, watches, ready_id, failed, failure, backend }))
    }

    /// The backend, if it is a `B`.
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
        // SAFETY: by the contract the pointee is a `B`, which lives as long as the stream.
        unsafe { &*Arc::as_ptr(&self.0.backend).cast::<B>() }
    }

    #[cfg(feature = "cuda")]
    pub(super) fn downgrade(&self) -> WeakStream {
        WeakStream(Arc::downgrade(&self.0))
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    #[inline]
    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.0.memory
    }

    /// Names the device while it is in use.
    pub(crate) fn memory_id(&self) -> u64 {
        self.0.memory.id()
    }

    pub(crate) fn meter(&self) -> &Meter {
        self.0.memory.meter()
    }

    /// Returns what an earlier drop on this stream could not.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.failed.load(Relaxed) { self.take_failure() } else { Ok(()) }
    }

    /// The id, or none that a stream has if [`check`](Stream::check) or [`handed_out`](Stream::handed_out) has something
    /// to do.
    #[inline]
    pub(crate) fn ready_id(&self) -> u64 {
        self.0.ready_id.load(Relaxed)
    }

    #[cold]
    fn take_failure(&self) -> Result<()> {
        let mut failure = self.0.failure.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.failed.store(false, Relaxed);
        self.0.ready_id.store(ready_id(self.0.id, self.0.watches), Relaxed);
        failure.take().map_or(Ok(()), |error| Err(error.deferred()))
    }

    /// Keeps the first failure that a drop met, for [`check`](Stream::check).
    pub(crate) fn keep(&self, error: Error) {
        let mut failure = self.0.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        self.0.failed.store(true, Relaxed);
        self.0.ready_id.store(NOT_READY, Relaxed);
    }

    /// Memory for `bytes`; no device is asked for zero bytes.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64> {
        if bytes == 0 {
            return Ok(0);
        }
        let address = self.0.backend.allocate(bytes)?;
        self.meter().allocated(bytes as u64);
        Ok(address)
    }

    /// Gives memory back; a failure is kept for the next fallible call.
    ///
    /// # Safety
    /// As for [`Backend::free`], or `bytes` is zero.
    pub(crate) unsafe fn release(&self, address: u64, bytes: usize) {
        if bytes == 0 || process_exits() {
            return;
        }
        self.meter().freed(bytes as u64);
        // SAFETY: the caller's contract is that of `free`.
        if let Err(error) = unsafe { self.0.backend.free(address, bytes) } {
            self.keep(error);
        }
    }

    /// As [`Backend::fill`], and nothing to do for zero bytes.
    ///
    /// # Safety
    /// As for [`Backend::fill`], or `bytes` is zero.
    pub(crate) unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()> {
        // SAFETY: the caller's contract is that of `fill`.
        if bytes == 0 { Ok(()) } else { unsafe { self.0.backend.fill(address, bytes, pattern) } }
    }

    /// As [`Backend::write`], and nothing to do for zero bytes.
    ///
    /// # Safety
    /// As for [`Backend::write`], or `bytes` is zero.
    pub(crate) unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller's contract is that of `write`.
        if bytes == 0 { Ok(()) } else { unsafe { self.0.backend.write(from, to, bytes) } }
    }

    /// As [`Backend::read`], and nothing to do for zero bytes.
    ///
    /// # Safety
    /// As for [`Backend::read`], or `bytes` is zero.
    pub(crate) unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's contract is that of `read`.
        if bytes == 0 { Ok(()) } else { unsafe { self.0.backend.read(from, to, bytes) } }
    }

    /// As [`Backend::copy`], and nothing to do for zero bytes.
    ///
    /// # Safety
    /// As for [`Backend::copy`], or `bytes` is zero.
    pub(crate) unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller's contract is that of `copy`.
        if bytes == 0 { Ok(()) } else { unsafe { self.0.backend.copy(from, to, bytes) } }
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.0.backend.synchronize()
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

#[cfg(feature = "cuda")]
impl WeakStream {
    pub(super) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    pub(super) fn upgrade(&self) -> Option<Stream> {
        self.0.upgrade().map(Stream)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("id", &self.0.id).field("backend", &self.0.backend).finish()
    }
}
