//! The trait that a kind of machine implements.
#![allow(unsafe_code)]

pub(super) mod copies;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use self::copies::Copies;
use super::event::{Complete, Event};
use super::mark::Mark;
use crate::base::error::Result;

/// A kind of machine: memory that one stream orders, and the operations that arrays need on it.
///
/// Addresses are plain numbers, aligned to 256 bytes. All sizes are in bytes and never zero.
///
/// # Safety
/// - [`allocate`](Backend::allocate) must return memory that nothing else uses and that stays valid until it is freed. On a machine whose
///   arrays are read through pointers (`Host`), it must be ordinary memory of the process.
/// - After a [`wait`](Backend::wait) for an event, later work must not run before all work that the event was recorded behind is done.
/// - Both sides of [`copies`](Backend::copies) must put their work on one queue. The `device` side must be able to copy between this
///   device's memory and all memory that the `host` side of any of its queues allocates.
///
/// # Example
/// A device of your own, with its handle:
#[doc = "```\nuse gpucache::prelude::*;\n"]
#[doc = include_str!("../../docs/plain.rs")]
#[doc = "\nassert_eq!(Array::full(&Desk::new(), 3, 1.5f32)?.to_vec()?, [1.5; 3]);\n# Ok::<(), gpucache::Error>(())\n```"]
pub unsafe trait Backend: Any + fmt::Debug + Send + Sync {
    /// Allocates `bytes` of memory, for work that is put on this stream from now on.
    ///
    /// # Errors
    /// [`Error::out_of_memory`](crate::Error::out_of_memory) if the memory may be available once other memory is freed. Any other error is
    /// passed on unchanged.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::backend::Backend, plain::Plain}; // as in the example of the trait
    /// let address = Plain.allocate(1000)?;
    /// assert!(address.is_multiple_of(256));
    /// // SAFETY: it was allocated just now with this size, and nothing uses it.
    /// unsafe { Plain.free(address, 1000)? };
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn allocate(&self, bytes: usize) -> Result<u64>;

    /// Like [`allocate`](Backend::allocate), but work of any stream of the device may use the memory from now on.
    ///
    /// # Errors
    /// As for [`allocate`](Backend::allocate).
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// let address = Plain.allocate_for_all(64)?; // true for all memory of this device
    /// // SAFETY: it was allocated just now with this size, and nothing uses it.
    /// unsafe { Plain.free(address, 64)? };
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn allocate_for_all(&self, bytes: usize) -> Result<u64> {
        self.allocate(bytes)
    }

    /// Frees memory once the work that is on the stream now is done.
    ///
    /// # Errors
    /// An error of the device. The memory counts as freed in any case.
    ///
    /// # Safety
    /// `address` came from `allocate(bytes)` of this stream, or of another stream of the same memory whose work on it is done. The memory
    /// is freed once, and later work does not use it.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// let address = Plain.allocate(64)?;
    /// // SAFETY: it was allocated just now with this size, and nothing uses it.
    /// unsafe { Plain.free(address, 64)? };
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    unsafe fn free(&self, address: u64, bytes: usize) -> Result<()>;

    /// The same memory in the order of a queue that nobody captures, if the stream is captured; for calls that a capture cannot contain.
    #[doc(hidden)]
    fn beside_capture(&self) -> Result<Option<Arc<dyn Backend>>> {
        Ok(None)
    }

    /// Writes `bytes` bytes by repeating `pattern`. `bytes` is a multiple of the length of `pattern`.
    ///
    /// # Errors
    /// An error of the device.
    ///
    /// # Safety
    /// `bytes` at `address` are allocated, and nothing else touches them before this is done.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// let address = Plain.allocate(8)?;
    /// let mut bytes = [0; 8];
    /// // SAFETY: eight bytes are allocated, and nothing else uses them.
    /// unsafe {
    ///     Plain.fill(address, 8, &[1, 2])?;
    ///     Plain.read(address, bytes.as_mut_ptr(), 8)?;
    ///     Plain.free(address, 8)?;
    /// }
    /// assert_eq!(bytes, [1, 2, 1, 2, 1, 2, 1, 2]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()>;

    /// Copies from the process's memory. The caller may change `from` as soon as this returns.
    ///
    /// # Errors
    /// An error of the device.
    ///
    /// # Safety
    /// `bytes` at `from` are readable, `bytes` at `to` are allocated, and nothing else touches them before this is done.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
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

    /// Copies to the process's memory and waits until the copy is done.
    ///
    /// # Errors
    /// An error of the device, or of earlier work on the stream.
    ///
    /// # Safety
    /// `bytes` at `from` are allocated, `bytes` at `to` are writable.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
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
    /// An error of the device.
    ///
    /// # Safety
    /// `bytes` at both addresses are allocated and do not overlap; nothing else writes them before this is done.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
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

    /// A new queue for copies between this device's memory and host memory that it reaches by itself. [`copy`](Backend::copy) of the
    /// queue's `device` side makes them. `None` for a device without such queues; its arrays never leave it.
    ///
    /// # Errors
    /// An error of the device.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// assert!(Plain.copies()?.is_none()); // this device has no queues for copies
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn copies(&self) -> Result<Option<Copies>> {
        Ok(None)
    }

    /// Bytes of unpinned host memory that this device's queues for copies allocated. Copies of this memory make a thread wait.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// assert_eq!(Plain.pageable_bytes(), 0);
    /// ```
    fn pageable_bytes(&self) -> u64 {
        0
    }

    /// Waits until all work on the stream is done.
    ///
    /// # Errors
    /// An error of that work.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// Plain.synchronize()?; // returns at once, as there is no work
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn synchronize(&self) -> Result<()>;

    /// Returns memory to the machine that the backend keeps for later allocations, if it keeps any. It is called before a request fails.
    /// Returns whether more memory may be available now.
    ///
    /// # Errors
    /// An error of the device.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// assert!(!Plain.release_reserve()?, "it keeps no memory");
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn release_reserve(&self) -> Result<bool> {
        Ok(false)
    }

    /// A new event of this device that was never recorded. It may be recorded here any number of times.
    ///
    /// By default, work is done when a call returns, so all work before a recording is done too. A backend whose work is done later has its
    /// own `new_event`, [`record`](Backend::record) and [`wait`](Backend::wait).
    ///
    /// # Errors
    /// An error of the device.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// let event = Plain.new_event()?;
    /// assert!(event.is_complete()?);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn new_event(&self) -> Result<Arc<dyn Event>> {
        Ok(Arc::new(Complete))
    }

    /// Records `event`, which came from this backend, behind all work that is on the stream now. A stream that already waits for the event
    /// still waits for its previous recording.
    ///
    /// # Errors
    /// An error of the device. The event's place is then unknown.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// let event = Plain.new_event()?;
    /// Plain.record(&*event)?; // behind all work on the stream now
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn record(&self, _event: &dyn Event) -> Result<()> {
        Ok(())
    }

    /// Makes later work of this stream wait for all work before the last recording of `event`, which is of another stream of the same
    /// memory. The calling thread does not wait.
    ///
    /// # Errors
    /// An error of the device. Later work is then not ordered.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// let (first, second) = (Plain, Plain);
    /// let event = first.new_event()?;
    /// first.record(&*event)?;
    /// second.wait(&*event)?; // later work of the second waits for the first's
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn wait(&self, _event: &dyn Event) -> Result<()> {
        Ok(())
    }

    /// Sets a mark in the stream's work, which tells when the stream reached it. By default `None`: the device has no marks.
    ///
    /// # Errors
    /// An error of the device.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// assert!(Plain.mark()?.is_none()); // this device has no clock
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn mark(&self) -> Result<Option<Box<dyn Mark>>> {
        Ok(None)
    }

    /// Whether [`is_capturing`](Backend::is_capturing) can ever be true.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// assert!(!Plain.can_capture()); // this device has no graphs
    /// ```
    fn can_capture(&self) -> bool {
        false
    }

    /// Whether work on the stream is now captured into a graph instead of being done. The crate then queries nothing outside the capture
    /// and waits for nothing there. It refuses memory that another stream still uses.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// assert!(!Plain.is_capturing()); // this device has no graphs
    /// ```
    fn is_capturing(&self) -> bool {
        false
    }

    /// Whether any thread may [`record`](Backend::record) an event on the stream at any time. If not, only threads that work on the stream
    /// record, because another thread might record into a graph that it is capturing.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// assert!(Plain.records_for_anyone());
    /// ```
    fn records_for_anyone(&self) -> bool {
        true
    }

    /// Takes a failure that code below the backend met earlier and kept because it could not return it. Calls that can return an error ask
    /// for it before they do anything.
    ///
    /// # Errors
    /// That failure, once.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// Plain.kept_failure()?; // this device keeps no failure
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn kept_failure(&self) -> Result<()> {
        Ok(())
    }

    #[doc(hidden)] // whether the program may put work on the stream without a handle of this crate
    fn is_held_elsewhere(&self) -> bool {
        true
    }

    /// Whether the stream's work is code of this process, which may itself call this crate. A wait for this work under a lock that the work
    /// needs would never end. So the crate asks the stream whether the work is done, and does not wait.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// assert!(!Plain.runs_closures());
    /// ```
    fn runs_closures(&self) -> bool {
        false
    }

    /// Whether the crate calls [`handed_out`](Backend::handed_out) and [`taken_back`](Backend::taken_back). Devices that check the use of
    /// their memory return `true`.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// assert!(!Plain.watches()); // this device is not told about its blocks
    /// ```
    fn watches(&self) -> bool {
        false
    }

    /// Tells the device that a block is in use from now on.
    ///
    /// # Errors
    /// The rule that the call breaks.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// assert!(Plain.handed_out(256, 1024).is_ok());
    /// ```
    fn handed_out(&self, _address: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }

    /// Tells the device that a block is no longer in use.
    ///
    /// # Errors
    /// The rule that the call breaks.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); } use {gpucache::device::backend::Backend, plain::Plain};
    /// assert!(Plain.taken_back(256, 1024).is_ok());
    /// ```
    fn taken_back(&self, _address: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }
}
