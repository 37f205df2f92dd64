//! What a kind of machine implements.
#![allow(unsafe_code)]

pub(super) mod copies;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use self::copies::Copies;
use super::event::{Complete, Event};
use super::mark::Mark;
use crate::base::error::Result;

/// What every block's address is a multiple of: CUDA's alignment, on which kernels with vector loads rely.
pub(crate) const ALIGNMENT: u64 = 256;

/// What a kind of machine implements: memory ordered by one stream, and the operations that arrays need on it.
///
/// Addresses are plain numbers, aligned to 256 bytes. All sizes are in bytes and never zero.
///
/// # Safety
/// [`allocate`](Backend::allocate) must return memory that nothing else uses and that stays valid until it is freed.
/// On a machine whose arrays are read through pointers (`Host`) it must be ordinary memory of the process.
/// Behind a [`wait`](Backend::wait) for an event no work that it was recorded behind is under way.
/// Both sides of [`copies`](Backend::copies) put their work on one queue; the device's copies between this device's memory and all that
/// the host's side of any of its queues allocates.
///
/// # Example
/// A device of one's own, handle included:
#[doc = "```\nuse gpucache::prelude::*;\n"]
#[doc = include_str!("../../docs/plain.rs")]
#[doc = "\nassert_eq!(Array::full(&Desk::new(), 3, 1.5f32)?.to_vec()?, [1.5; 3]);\n# Ok::<(), gpucache::Error>(())\n```"]
pub unsafe trait Backend: Any + fmt::Debug + Send + Sync {
    /// Memory for `bytes`, usable by work that is put on this stream from now on.
    ///
    /// # Errors
    /// [`Error::out_of_memory`](crate::Error::out_of_memory) where memory may be had once other memory is given back; anything else as it is.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::Backend, plain::Plain}; // as in the example of the trait
    /// let address = Plain.allocate(1000)?;
    /// assert!(address.is_multiple_of(256));
    /// // SAFETY: it was allocated just now, with as many bytes, and nothing uses it.
    /// unsafe { Plain.free(address, 1000)? };
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn allocate(&self, bytes: usize) -> Result<u64>;

    /// As [`allocate`](Backend::allocate), and usable by work of any stream of the device from now on.
    ///
    /// # Errors
    /// As for [`allocate`](Backend::allocate).
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::Backend, plain::Plain}; // as in the example of the trait
    /// let address = Plain.allocate_for_all(64)?; // which all of it is, here
    /// // SAFETY: it was allocated just now, with as many bytes, and nothing uses it.
    /// unsafe { Plain.free(address, 64)? };
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn allocate_for_all(&self, bytes: usize) -> Result<u64> {
        self.allocate(bytes)
    }

    /// Gives memory back once the work that is on the stream now is done.
    ///
    /// # Errors
    /// What the device answered; the memory counts as gone either way.
    ///
    /// # Safety
    /// `address` came from `allocate(bytes)` of this stream, or of one of the same memory whose work on it is done; it is
    /// freed once, and not used by later work.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::Backend, plain::Plain}; // as in the example of the trait
    /// let address = Plain.allocate(64)?;
    /// // SAFETY: it was allocated just now, with as many bytes, and nothing uses it.
    /// unsafe { Plain.free(address, 64)? };
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    unsafe fn free(&self, address: u64, bytes: usize) -> Result<()>;

    /// Writes `bytes` bytes: `pattern` again and again. `bytes` is a multiple of the length of `pattern`.
    ///
    /// # Errors
    /// What the device answered.
    ///
    /// # Safety
    /// `bytes` at `address` are allocated, and nothing else touches them before this is done.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::Backend, plain::Plain}; // as in the example of the trait
    /// let address = Plain.allocate(8)?;
    /// let mut bytes = [0; 8];
    /// // SAFETY: as many bytes are allocated, and nothing else uses them.
    /// unsafe {
    ///     Plain.fill(address, 8, &[1, 2])?;
    ///     Plain.read(address, bytes.as_mut_ptr(), 8)?;
    ///     Plain.free(address, 8)?;
    /// }
    /// assert_eq!(bytes, [1, 2, 1, 2, 1, 2, 1, 2]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()>;

    /// Copies from the process's memory. `from` may be changed as soon as this returns.
    ///
    /// # Errors
    /// What the device answered.
    ///
    /// # Safety
    /// `bytes` at `from` are readable, `bytes` at `to` are allocated, and nothing else touches them before this is done.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::Backend, plain::Plain}; // as in the example of the trait
    /// let (values, mut bytes) = ([7u8; 4], [0; 4]);
    /// let address = Plain.allocate(4)?;
    /// // SAFETY: four bytes are readable, writable and allocated, and nothing else uses them.
    /// unsafe {
    ///     Plain.write(values.as_ptr(), address, 4)?;
    ///     Plain.read(address, bytes.as_mut_ptr(), 4)?;
    ///     Plain.free(address, 4)?;
    /// }
    /// assert_eq!(bytes, values);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()>;

    /// Copies to the process's memory and waits until it is there.
    ///
    /// # Errors
    /// What the device answered, or what work on the stream met before.
    ///
    /// # Safety
    /// `bytes` at `from` are allocated, `bytes` at `to` are writable.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::Backend, plain::Plain}; // as in the example of the trait
    /// let address = Plain.allocate(4)?;
    /// let mut bytes = [0; 4];
    /// // SAFETY: four bytes are writable and allocated, and nothing else uses them.
    /// unsafe {
    ///     Plain.fill(address, 4, &[9])?;
    ///     Plain.read(address, bytes.as_mut_ptr(), 4)?;
    ///     Plain.free(address, 4)?;
    /// }
    /// assert_eq!(bytes, [9; 4]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()>;

    /// Copies within the device.
    ///
    /// # Errors
    /// What the device answered.
    ///
    /// # Safety
    /// `bytes` at both addresses are allocated and do not overlap; nothing else writes them before this is done.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::Backend, plain::Plain}; // as in the example of the trait
    /// let (first, second) = (Plain.allocate(4)?, Plain.allocate(4)?);
    /// let mut bytes = [0; 4];
    /// // SAFETY: four bytes are writable, and allocated at both addresses, and nothing else uses them.
    /// unsafe {
    ///     Plain.fill(first, 4, &[3])?;
    ///     Plain.copy(first, second, 4)?;
    ///     Plain.read(second, bytes.as_mut_ptr(), 4)?;
    ///     Plain.free(first, 4)?;
    ///     Plain.free(second, 4)?;
    /// }
    /// assert_eq!(bytes, [3; 4]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()>;

    /// A new queue for copies between this device's memory and the host's that it reaches by itself, which [`copy`](Backend::copy) of
    /// the queue's `device` side makes. `None` for a device that has none, whose arrays never leave it.
    ///
    /// # Errors
    /// What the device answered.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// assert!(Plain.copies()?.is_none()); // it was not asked to have one
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn copies(&self) -> Result<Option<Copies>> {
        Ok(None)
    }

    /// How much of the host's memory that its queues for copies allocated is not pinned, so that copies make a thread wait.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// assert_eq!(Plain.pageable_bytes(), 0);
    /// ```
    fn pageable_bytes(&self) -> u64 {
        0
    }

    /// Waits until all work on the stream is done.
    ///
    /// # Errors
    /// What that work met.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// Plain.synchronize()?; // at once, as no work is under way
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn synchronize(&self) -> Result<()>;

    /// Gives memory back to the machine that the backend keeps for later allocations, where it keeps any: before a request
    /// fails. Returns whether there may be some more now.
    ///
    /// # Errors
    /// What the device answered.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// assert!(!Plain.release_reserve()?, "it keeps no memory");
    /// # Ok::<(), gpucache::Error>(())
    /// ```
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
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// let event = Plain.new_event()?;
    /// assert!(event.is_complete()?);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn new_event(&self) -> Result<Arc<dyn Event>> {
        Ok(Arc::new(Complete))
    }

    /// Puts `event`, which came from this backend, behind all work that is on the stream now. Whoever waits already
    /// waits for what it was behind before.
    ///
    /// # Errors
    /// What the device answered; what the event is behind is then not known.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// let event = Plain.new_event()?;
    /// Plain.record(&*event)?; // behind all that is on the stream now
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn record(&self, _event: &dyn Event) -> Result<()> {
        Ok(())
    }

    /// Makes later work of this stream wait for what `event` is behind now: work of another stream of the same memory.
    /// The calling thread does not wait.
    ///
    /// # Errors
    /// What the device answered; later work is then not ordered.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// let (first, second) = (Plain, Plain);
    /// let event = first.new_event()?;
    /// first.record(&*event)?;
    /// second.wait(&*event)?; // later work of the second is behind the first's
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn wait(&self, _event: &dyn Event) -> Result<()> {
        Ok(())
    }

    /// A mark in the work of the stream now, which tells when it was reached. `None`, unless told otherwise, from a device that does not.
    ///
    /// # Errors
    /// What the device answered.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// assert!(Plain.mark()?.is_none()); // it has no clock
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn mark(&self) -> Result<Option<Box<dyn Mark>>> {
        Ok(None)
    }

    /// Whether [`is_capturing`](Backend::is_capturing) is ever true.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// assert!(!Plain.can_capture()); // it knows no graphs
    /// ```
    fn can_capture(&self) -> bool {
        false
    }

    /// Whether work that is put on the stream is captured into a graph now, and not done. Nothing outside the capture is
    /// queried or waited for then: memory that another stream still uses is refused.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// assert!(!Plain.is_capturing()); // it knows no graphs
    /// ```
    fn is_capturing(&self) -> bool {
        false
    }

    /// Whether any thread may [`record`](Backend::record) an event on the stream at any time. If not, only a thread that works
    /// on it does, as another one might record into a graph that it captures meanwhile.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// assert!(Plain.records_for_anyone());
    /// ```
    fn records_for_anyone(&self) -> bool {
        true
    }

    /// Takes a failure that something below the backend met earlier and kept because it could not return it. Asked by calls
    /// that can return one, before they do anything.
    ///
    /// # Errors
    /// That failure, once.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// Plain.kept_failure()?; // it keeps none
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn kept_failure(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the stream's work is code of this process, which may itself call this crate. What is locked meanwhile
    /// would never be unlocked, so that such a stream is asked whether it is done, and not waited for.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// assert!(!Plain.runs_closures());
    /// ```
    fn runs_closures(&self) -> bool {
        false
    }

    /// Whether [`handed_out`](Backend::handed_out) and [`taken_back`](Backend::taken_back) are to be called: for devices
    /// that check what is done with their memory.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// assert!(!Plain.watches()); // nobody tells it what becomes of its blocks
    /// ```
    fn watches(&self) -> bool {
        false
    }

    /// A block is in use from now on.
    ///
    /// # Errors
    /// What is wrong about it.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// Plain.handed_out(256, 1024)?; // it has no objection
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn handed_out(&self, _address: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }

    /// A block is no longer in use.
    ///
    /// # Errors
    /// What is wrong about it.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::Backend, plain::Plain};
    /// Plain.taken_back(256, 1024)?; // it has no objection
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn taken_back(&self, _address: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }
}
