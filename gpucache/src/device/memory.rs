//! The memory of one device as its streams share it: counters, and what a range of it is made of.
#![allow(unsafe_code)]

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::meter::Meter;
use crate::base::error::Result;
use crate::base::sync::OnceLock;

/// Virtual memory management of a device: addresses first, pages behind them later.
///
/// All sizes and places are multiples of the granularity. Mapped memory is usable by every stream of the device at once.
///
/// # Safety
/// The reserved addresses are used for nothing else while the process lives, and memory is readable and writable from
/// when `map` returned until `unmap` is called for it.
pub unsafe trait VirtualMemory: fmt::Debug + Send + Sync + 'static {
    /// The unit of mapping in bytes: always the same, a power of two of at least 256.
    fn granularity(&self) -> u64;

    /// Reserves addresses without memory, once: where they begin, and how many bytes they are.
    ///
    /// # Errors
    /// What the device answered; memory is then taken from its streams in chunks.
    fn reserve(&self) -> Result<(u64, u64)>;

    /// Puts memory behind `bytes` reserved addresses that have none.
    ///
    /// # Errors
    /// [`Error::out_of_memory`](crate::Error::out_of_memory) where there is none left. Nothing is then mapped.
    fn map(&self, address: u64, bytes: u64) -> Result<()>;

    /// Takes the memory away again that one `map` put there.
    ///
    /// # Errors
    /// What the device answered; the memory is then still mapped.
    ///
    /// # Safety
    /// One `map` was called with these arguments and no `unmap` since; no work uses the memory any more.
    unsafe fn unmap(&self, address: u64, bytes: u64) -> Result<()>;
}

/// What a range of the device is made of.
#[derive(Debug, Default)]
enum Kind {
    /// It has none: each miss of a scope asks the stream's backend.
    #[default]
    Plain,
    /// Large allocations of the stream's backend.
    Chunks,
    /// Pages behind reserved addresses.
    Pages(Arc<dyn VirtualMemory>),
}

/// The memory of one device, shared by its streams.
#[derive(Debug)]
pub struct Memory {
    /// Never given again, so that what is counted for a device that is gone is not taken for another one's.
    id: u64,
    meter: Arc<Meter>,
    kind: Kind,
    /// What the layer above keeps for the device.
    range: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::of(Kind::default())
    }
}

impl Memory {
    /// Memory that can be mapped behind addresses, of which the device's range is made. The default has no range: scopes
    /// ask the streams' backends for each block.
    pub fn with_pages(pages: impl VirtualMemory) -> Memory {
        Memory::of(Kind::Pages(Arc::new(pages)))
    }

    /// Memory whose range is made of chunks, allocated by the streams' backends.
    pub fn with_chunks() -> Memory {
        Memory::of(Kind::Chunks)
    }

    fn of(kind: Kind) -> Memory {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Memory { id: NEXT.fetch_add(1, Relaxed), meter: Arc::default(), kind, range: OnceLock::new() }
    }

    /// Whether there is to be a range over it.
    #[inline]
    pub(crate) fn has_range(&self) -> bool {
        !matches!(self.kind, Kind::Plain)
    }

    pub(crate) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    pub(crate) fn pages(&self) -> Option<&Arc<dyn VirtualMemory>> {
        match &self.kind {
            Kind::Pages(pages) => Some(pages),
            Kind::Plain | Kind::Chunks => None,
        }
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
