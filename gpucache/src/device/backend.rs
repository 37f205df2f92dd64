//! What a kind of machine implements, and its events: marks in a stream's work.
#![allow(unsafe_code)]

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::base::error::Result;

/// What every block's address is a multiple of: the alignment of CUDA's allocations, on which kernels with vector loads
/// rely.
pub(crate) const ALIGNMENT: u64 = 256;

/// A mark in the work of a stream, made by [`Backend::new_event`] and set by [`Backend::record`], again and again.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
/// use gpucache::device::Event;
///
/// /// Complete once as many pieces of work are done as there were when it was recorded.
/// #[derive(Debug)]
/// struct Place {
///     done: &'static AtomicU64,
///     until: AtomicU64,
/// }
///
/// // SAFETY: pieces are counted once they are done, so `done` reaches `until` only then.
/// unsafe impl Event for Place {
///     fn is_complete(&self) -> gpucache::Result<bool> {
///         Ok(self.done.load(SeqCst) >= self.until.load(SeqCst))
///     }
/// }
/// ```
///
/// # Safety
/// Once [`is_complete`](Event::is_complete) answered that it is, no work that it was recorded behind last is under way:
/// memory that the work used is handed out again then.
pub unsafe trait Event: Any + fmt::Debug + Send + Sync {
    /// Whether all work is done that it was recorded behind last. Does not wait.
    ///
    /// # Errors
    /// What the device answered, or what that work met.
    fn is_complete(&self) -> Result<bool>;
}

/// The event of a stream whose work is done when a call returns.
#[derive(Debug)]
struct Complete;

// SAFETY: it is the event of streams whose work is done when a call returns, so that nothing it is behind is under way.
unsafe impl Event for Complete {
    fn is_complete(&self) -> Result<bool> {
        Ok(true)
    }
}

/// What a kind of machine implements: memory ordered by one stream, and the operations that arrays need on it.
///
/// Addresses are plain numbers, aligned to 256 bytes. All sizes are in bytes and never zero.
///
/// # Safety
/// [`allocate`](Backend::allocate) must return memory that nothing else uses and that stays valid until it is freed.
/// On a machine whose arrays are read through pointers ([`Host`](super::Host)) it must be ordinary memory of the process.
/// Behind a [`wait`](Backend::wait) for an event no work that it was recorded behind is under way.
pub unsafe trait Backend: Any + fmt::Debug + Send + Sync {
    /// Memory for `bytes`, usable by work that is put on this stream from now on.
    ///
    /// # Errors
    /// [`Error::out_of_memory`](crate::Error::out_of_memory) where memory may be had once other memory is given back; anything else as it is.
    fn allocate(&self, bytes: usize) -> Result<u64>;

    /// Gives memory back once the work that is on the stream now is done.
    ///
    /// # Errors
    /// What the device answered; the memory counts as gone either way.
    ///
    /// # Safety
    /// `address` came from `allocate(bytes)` of this stream, or of one of the same memory whose work on it is done; it is
    /// freed once, and not used by later work.
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

    /// Gives memory back to the machine that the backend keeps for later allocations, where it keeps any: before a request
    /// fails. Returns whether there may be some more now.
    ///
    /// # Errors
    /// What the device answered.
    fn release_reserve(&self) -> Result<bool> {
        Ok(false)
    }

    /// An event that nothing was recorded for, of this device: to be recorded here as often as one likes.
    ///
    /// Unless it is told otherwise, work is done when a call returns, and so is all that an event is recorded behind.
    /// A backend whose work is done later has its own `new_event`, [`record`](Backend::record) and
    /// [`wait`](Backend::wait).
    ///
    /// # Errors
    /// What the device answered.
    fn new_event(&self) -> Result<Arc<dyn Event>> {
        Ok(Arc::new(Complete))
    }

    /// Puts `event`, which came from this backend, behind all work that is on the stream now. Whoever waits already
    /// waits for what it was behind before.
    ///
    /// # Errors
    /// What the device answered; what the event is behind is then not known.
    fn record(&self, _event: &dyn Event) -> Result<()> {
        Ok(())
    }

    /// Makes later work of this stream wait for what `event` is behind now: work of another stream of the same memory.
    /// The calling thread does not wait.
    ///
    /// # Errors
    /// What the device answered; later work is then not ordered.
    fn wait(&self, _event: &dyn Event) -> Result<()> {
        Ok(())
    }

    /// Whether [`is_capturing`](Backend::is_capturing) is ever true.
    fn can_capture(&self) -> bool {
        false
    }

    /// Whether work that is put on the stream is captured into a graph now, and not done. Nothing outside the capture is
    /// queried or waited for then: memory that another stream still uses is refused.
    fn is_capturing(&self) -> bool {
        false
    }

    /// Whether any thread may [`record`](Backend::record) an event on the stream at any time. If not, only a thread that works
    /// on it does, as another one might record into a graph that it captures meanwhile.
    fn records_for_anyone(&self) -> bool {
        true
    }

    /// Takes a failure that something below the backend met earlier and kept because it could not return it. Asked by calls
    /// that can return one, before they do anything.
    ///
    /// # Errors
    /// That failure, once.
    fn kept_failure(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the stream's work is code of this process, which may itself call this crate. What is locked meanwhile
    /// would never be unlocked, so that such a stream is asked whether it is done, and not waited for.
    fn runs_closures(&self) -> bool {
        false
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
