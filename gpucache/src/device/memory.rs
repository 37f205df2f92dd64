//! The memory of one device as its streams share it: counters, and what a range of it is made of.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use super::meter::Meter;
use super::quota;
use super::virtual_memory::VirtualMemory;
use crate::base::error::Error;
use crate::base::sync::{Mutex, OnceLock};

/// What a range of the device is made of.
#[derive(Debug, Default)]
enum RangeMemory {
    /// It has none: each supply of a scope asks the stream's backend.
    #[default]
    Plain,
    /// Large allocations of the stream's backend.
    Chunks,
    /// Pages behind reserved addresses.
    Pages(Arc<dyn VirtualMemory>),
}

/// The memory of one device, shared by its streams.
///
/// ```
/// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
/// use gpucache::device::{Memory, Stream};
/// # use plain::Plain;
///
/// let memory = std::sync::Arc::new(Memory::with_chunks());
/// // SAFETY: both backends allocate memory of this process, which the other one can use.
/// let streams = unsafe { [Stream::new(memory.clone(), Plain), Stream::new(memory, Plain)] };
/// assert!(streams.iter().all(|stream| stream.backend::<Plain>().is_some()));
/// ```
#[derive(Debug)]
pub struct Memory {
    /// Never given again, so that what is counted for a device that is gone is not taken for another one's.
    id: u64,
    meter: Arc<Meter>,
    range_memory: RangeMemory,
    /// The limit in the environment is none.
    refusal: Mutex<Option<Error>>,
    /// What the layer above keeps for the device.
    range: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::of(RangeMemory::default())
    }
}

impl Memory {
    /// Memory that can be mapped behind addresses, of which the device's range is made. The default has no range: scopes
    /// ask the streams' backends for each block.
    ///
    /// ```
    /// # mod pages { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pages.rs")); }
    /// use {gpucache::device::Memory, pages::Pages}; // as in the example of `VirtualMemory`
    ///
    /// let memory = Memory::with_pages(Pages::default());
    /// ```
    pub fn with_pages(pages: impl VirtualMemory) -> Memory {
        Memory::of(RangeMemory::Pages(Arc::new(pages)))
    }

    /// Memory whose range is made of chunks, allocated by the streams' backends.
    ///
    /// ```
    /// use gpucache::device::Memory;
    ///
    /// let memory = Memory::with_chunks();
    /// ```
    pub fn with_chunks() -> Memory {
        Memory::of(RangeMemory::Chunks)
    }

    fn of(range_memory: RangeMemory) -> Memory {
        static NEXT_MEMORY: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_MEMORY.fetch_add(1, Relaxed);
        let meter = Arc::new(Meter::default());
        let capacity = match &range_memory {
            RangeMemory::Pages(pages) => pages.capacity(),
            RangeMemory::Plain | RangeMemory::Chunks => None,
        };
        let refusal = match quota::from_environment(capacity) {
            Ok(limit) => {
                limit.into_iter().for_each(|bytes| meter.set_limit(bytes));
                None
            }
            Err(error) => Some(error),
        };
        Memory { id, meter, range_memory, refusal: Mutex::new(refusal), range: OnceLock::new() }
    }

    /// What was wrong with the limit in the environment, for the first stream to tell.
    pub(super) fn take_refusal(&self) -> Option<Error> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether there is to be a range over it.
    #[inline]
    pub(crate) fn has_range(&self) -> bool {
        !matches!(self.range_memory, RangeMemory::Plain)
    }

    pub(crate) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    pub(crate) fn pages(&self) -> Option<&Arc<dyn VirtualMemory>> {
        match &self.range_memory {
            RangeMemory::Pages(pages) => Some(pages),
            RangeMemory::Plain | RangeMemory::Chunks => None,
        }
    }

    /// How many bytes of the device are held elsewhere: by other processes, by other libraries of this one, and by the driver. `None`
    /// where the device does not tell.
    pub(crate) fn held_elsewhere(&self) -> Option<u64> {
        let pages = self.pages()?;
        let held = pages.capacity()?.saturating_sub(pages.available()?);
        Some(held.saturating_sub(self.meter.held()))
    }

    /// Names the device, for the life of the process.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// What the layer above keeps for the device, if it does.
    pub(crate) fn known_range<R: Any>(&self) -> Option<&R> {
        self.range.get()?.downcast_ref()
    }

    /// What the layer above keeps for the device; made by `make` the first time.
    #[inline]
    pub(crate) fn range<R: Any + Send + Sync>(&self, make: impl FnOnce() -> R) -> Option<&R> {
        self.range.get_or_init(|| Box::new(make())).downcast_ref()
    }
}
