//! The memory of one device, which its streams share: its counters, and the kind of memory that its range uses.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use super::backend::copies::Copies;
use super::kind::DeviceKind;
use super::meter::Meter;
use super::unknown::UnknownWork;
use super::virtual_memory::VirtualMemory;
use super::yielding::Yielding;
use super::{machine, process, quota};
use crate::base::error::{Error, Result};
use crate::base::limit::Limit;
use crate::base::sync::{Mutex, OnceLock, lock};

/// The memory of one device, shared by its streams.
///
/// ```
/// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
/// use gpucache::device::backend::{Memory, Stream};
/// # use plain::Plain;
///
/// let memory = std::sync::Arc::new(Memory::with_chunks());
/// // SAFETY: both backends allocate memory of this process, which each of them can use.
/// let streams = unsafe { [Stream::new(memory.clone(), Plain), Stream::new(memory, Plain)] };
/// assert!(streams.iter().all(|stream| stream.backend::<Plain>().is_some()));
/// ```
pub struct Memory {
    /// No number is used twice, so counts of a dropped device are never taken for those of another one.
    id: u64,
    kind: DeviceKind,
    meter: Arc<Meter>,
    /// Whether the device has a range. Otherwise each supply of a scope asks the stream's backend.
    has_range: bool,
    /// The memory of the range's pages; `None` if the range is made of large allocations of the stream's backend.
    pages: Option<Arc<dyn VirtualMemory>>,
    /// The error of the limit in the environment variable.
    refusal: Mutex<Option<Error>>,
    /// The range of the device, which the folder `range` keeps here.
    range: OnceLock<Box<dyn Any + Send + Sync>>,
    /// Values of the device that the folder `pressure` keeps here.
    attached: OnceLock<Box<dyn Any + Send + Sync>>,
    /// What a front end keeps about arrays that leave the device.
    offload: OnceLock<Box<dyn Any + Send + Sync>>,
    /// The host's memory for arrays that leave the device.
    host_side: OnceLock<Arc<Memory>>,
    /// Queues for copies to the host's memory that no copy stream uses now.
    idle_copies: Mutex<Vec<Copies>>,
    /// Graphs whose executables take memory of the device.
    graphs: Yielding,
    /// Work on unknown streams; `None` if this crate is told of every use.
    unknown_work: Option<Arc<dyn UnknownWork>>,
    /// Whether a stream was made since the last [`take_new_stream`](Memory::take_new_stream).
    has_new_stream: AtomicBool,
}

/// The memories that have a stream, in the order of their first streams.
static KNOWN: Mutex<Vec<Weak<Memory>>> = Mutex::new(Vec::new());

/// Leaves out the contents of locks, since the program may format this value anywhere, also where a lock is held.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Memory { id, meter, has_range, pages, .. } = self;
        let mut memory = f.debug_struct("Memory");
        memory.field("id", id).field("meter", meter).field("has_range", has_range).field("pages", pages);
        memory.finish_non_exhaustive()
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::limited(Memory::unlimited(false, None))
    }
}

impl Memory {
    /// Memory that can be mapped behind addresses. The device's range is made of it. The default [`Memory`] has no range: scopes ask the
    /// streams' backends for each block.
    ///
    /// ```
    /// # mod pages { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pages.rs")); }
    /// use {gpucache::device::backend::Memory, pages::Pages}; // as in the example of `VirtualMemory`
    ///
    /// let memory = Memory::with_pages(Pages::default());
    /// ```
    pub fn with_pages(pages: impl VirtualMemory) -> Memory {
        Memory::limited(Memory::unlimited(true, Some(Arc::new(pages))))
    }

    /// Memory whose range is made of chunks, which the streams' backends allocate.
    ///
    /// ```
    /// use gpucache::device::backend::Memory;
    ///
    /// let memory = Memory::with_chunks();
    /// ```
    pub fn with_chunks() -> Memory {
        Memory::limited(Memory::unlimited(true, None))
    }

    /// The host's memory for arrays that leave this device, made of chunks. It lasts as long as the device, since ranges never free memory
    /// on their own. The limit in the environment variable is for devices and does not apply here.
    #[doc(hidden)]
    pub fn host_side(&self) -> &Arc<Memory> {
        self.host_side.get_or_init(|| {
            let memory = Memory::unlimited(true, None);
            let meter = Arc::new(Meter::of(memory.id, 0).of_host_side());
            Memory { meter, ..memory.of_kind(DeviceKind::Host) }.into()
        })
    }

    /// A place for what a front end keeps about arrays that leave the device.
    #[doc(hidden)]
    pub fn offload(&self) -> &OnceLock<Box<dyn Any + Send + Sync>> {
        &self.offload
    }

    /// The host's memory, if an array ever left the device.
    #[doc(hidden)]
    pub fn known_host_side(&self) -> Option<&Arc<Memory>> {
        self.host_side.get()
    }

    /// A queue for copies to the host's memory that was used before.
    pub(super) fn take_idle_copies(&self) -> Option<Copies> {
        lock(&self.idle_copies).pop()
    }

    /// Returns [`Backend::pageable_bytes`](super::backend::Backend::pageable_bytes) of the host's memory, while no copy stream uses it.
    #[doc(hidden)]
    pub fn pageable_bytes(&self) -> u64 {
        let idle = lock(&self.idle_copies).first().cloned();
        idle.map_or(0, |copies| copies.host.pageable_bytes())
    }

    /// Keeps a queue for copies that is not used any more. Its earlier work may go on. On the host each queue has a thread, so programs that
    /// make a placed array again and again would start threads faster than they end.
    pub(super) fn keep_idle_copies(&self, copies: Copies) {
        lock(&self.idle_copies).push(copies);
    }

    /// Memory of this machine: of these pages, or of chunks without them.
    pub(super) fn of_machine(pages: Option<Arc<dyn VirtualMemory>>) -> Memory {
        Memory::limited(Memory::unlimited(true, pages).of_kind(DeviceKind::Host))
    }

    /// The same, with the limit in the environment.
    fn limited(memory: Memory) -> Memory {
        let set = || match quota::from_environment()? {
            Some(limit) => memory.apply(limit).map_err(|_| quota::of_unknown_size(limit)),
            None => Ok(()),
        };
        let refused = set().err();
        if refused.is_some() {
            // Who asked for a limit should not run without one, also if the program goes on after the error.
            memory.meter.set_limit(0);
        }
        Memory { refusal: Mutex::new(refused), ..memory }
    }

    /// Memory without a limit. A range is made of `pages`, or of chunks without them.
    fn unlimited(has_range: bool, pages: Option<Arc<dyn VirtualMemory>>) -> Memory {
        static NEXT_MEMORY: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_MEMORY.fetch_add(1, Relaxed);
        let page_bytes = pages.as_ref().map_or(0, |pages| pages.granularity());
        let meter = Arc::new(Meter::of(id, page_bytes));
        let refusal = Mutex::new(None);
        Memory {
            id,
            kind: DeviceKind::default(),
            meter,
            has_range,
            pages,
            refusal,
            range: OnceLock::new(),
            attached: OnceLock::new(),
            offload: OnceLock::new(),
            host_side: OnceLock::new(),
            idle_copies: Mutex::default(),
            graphs: Yielding::default(),
            unknown_work: None,
            has_new_stream: AtomicBool::new(false),
        }
    }

    /// The same memory, of a device of this kind.
    pub(super) fn of_kind(self, kind: DeviceKind) -> Memory {
        Memory { kind, ..self }
    }

    #[doc(hidden)]
    pub fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// The memories of all devices of the process, in the order in which their first streams came.
    #[doc(hidden)]
    pub fn every() -> Vec<Arc<Memory>> {
        lock(&KNOWN).iter().filter_map(Weak::upgrade).collect()
    }

    /// Notes that the device has a stream, so [`every`](Memory::every) returns this memory from now on.
    pub(super) fn note_stream(self: &Arc<Self>) {
        self.has_new_stream.store(true, Relaxed);
        let mut known = lock(&KNOWN);
        if !known.iter().any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(self))) {
            known.retain(|other| other.strong_count() > 0);
            known.push(Arc::downgrade(self));
        }
    }

    /// Whether a stream was made since the last call.
    pub(crate) fn take_new_stream(&self) -> bool {
        self.has_new_stream.load(Relaxed) && self.has_new_stream.swap(false, Relaxed)
    }

    /// The executables of graphs, which give way in a shortage.
    pub(crate) fn graphs(&self) -> &Yielding {
        &self.graphs
    }

    /// The same memory, for a device on which other code may launch work without telling this crate.
    #[cfg(feature = "cuda")]
    pub(super) fn with_unknown_work(self, work: Arc<dyn UnknownWork>) -> Memory {
        Memory { unknown_work: Some(work), ..self }
    }

    /// Work on unknown streams; `None` if this crate is told of every use.
    pub(crate) fn unknown_work(&self) -> Option<&Arc<dyn UnknownWork>> {
        self.unknown_work.as_ref()
    }

    /// Notes that other code gets an address of this memory and does not say on which stream it will use it.
    #[doc(hidden)]
    pub fn note_unknown_work(&self) {
        self.unknown_work.iter().for_each(|work| work.note());
    }

    /// Notes that other code frees memory of this device in the order of one stream, while work on other streams may still use it. From now
    /// on, memory goes to another stream only once all work of the device that was there when it was freed is done.
    #[doc(hidden)]
    pub fn note_unordered(&self) {
        self.unknown_work.iter().for_each(|work| {
            work.note();
            work.note_unordered();
        });
    }

    /// Takes out the error of the limit in the environment variable. The first stream reports it.
    pub(super) fn take_refusal(&self) -> Option<Error> {
        lock(&self.refusal).take()
    }

    /// Whether a range is made over this memory.
    #[inline]
    pub(crate) fn has_range(&self) -> bool {
        self.has_range
    }

    #[doc(hidden)]
    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    pub(crate) fn pages(&self) -> Option<&Arc<dyn VirtualMemory>> {
        self.pages.as_ref()
    }

    /// The capacity of the device in bytes, if the device reports it.
    #[doc(hidden)]
    pub fn capacity(&self) -> Option<u64> {
        self.pages()?.capacity()
    }

    /// The bytes of memory that the device has, or the machine whose memory this is; `None` if neither is known. A limit that is a share
    /// is a share of these bytes.
    #[doc(hidden)]
    pub fn size(&self) -> Option<u64> {
        let of_machine = || if self.kind == DeviceKind::Host { machine::size() } else { None };
        self.capacity().or_else(of_machine)
    }

    /// Sets the hard or the soft limit. The other one stays as it is.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) for a share if the size of the device is unknown; the limits stay as they were then.
    pub(crate) fn apply(&self, limit: Limit) -> Result<()> {
        let bytes = if limit.parts().1.is_in_bytes() { limit.bytes(None) } else { limit.bytes(self.size()) }?;
        if limit == Limit::NONE || !limit.is_soft() {
            self.meter.set_limit(bytes);
        }
        if limit == Limit::NONE || limit.is_soft() {
            self.meter.set_soft_limit(bytes);
        }
        Ok(())
    }

    /// The most bytes that one allocation could get if nothing else were reserved: the capacity of the device or the lowest limit.
    #[doc(hidden)]
    pub fn most(&self) -> u64 {
        let capacity = self.capacity().unwrap_or(u64::MAX);
        capacity.min(self.meter.limit()).min(process::limit())
    }

    /// The device's bytes that are reserved elsewhere: by other processes, by other libraries of this process, and by the driver. `None` if
    /// the device does not report them.
    pub(crate) fn held_elsewhere(&self) -> Option<u64> {
        let pages = self.pages()?;
        let held = self.capacity()?.saturating_sub(pages.available()?);
        Some(held.saturating_sub(self.meter.held()))
    }

    /// The number of the device. No other device of the process gets it.
    #[doc(hidden)]
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The device's range, if it was made already.
    pub(crate) fn known_range<R: Any>(&self) -> Option<&R> {
        self.range.get()?.downcast_ref()
    }

    /// The device's range. `make` makes it the first time.
    #[inline]
    pub(crate) fn range<R: Any + Send + Sync>(&self, make: impl FnOnce() -> R) -> Option<&R> {
        self.range.get_or_init(|| Box::new(make())).downcast_ref()
    }

    /// The values of the device that the folder `pressure` keeps.
    pub(crate) fn attached<T: Any + Send + Sync + Default>(&self) -> Option<&T> {
        self.attached.get_or_init(|| Box::<T>::default()).downcast_ref()
    }
}
