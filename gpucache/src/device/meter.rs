//! Counts what is held from one device, and how its streams are ordered: touched at device calls only, so that it costs
//! the warm path nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a process holds from one device through this crate.
///
/// ```
/// use gpucache::{device::Virtual, prelude::*};
///
/// let device = Virtual::new(1 << 30);
/// drop(device.zeros::<u8>(4 << 20)?); // of no scope
/// let used = device.memory();
/// assert_eq!((used.allocations, used.frees, used.bytes, used.peak_bytes), (1, 1, 0, 4 << 20));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// How often memory was taken from the device so far: allocations, and pieces of pages mapped, each of which counts
    /// though one call may map several.
    pub allocations: u64,
    /// How often memory was given back, counted in the same pieces.
    pub frees: u64,
    /// Bytes held from it now, idle ones included.
    pub bytes: u64,
    /// The most bytes held at once so far.
    pub peak_bytes: u64,
}

/// How often a device was called to order its streams, so that memory of one can serve another. A program with one
/// stream has zeros throughout, but for streams of [`Host::new_stream`](super::Host::new_stream): those are asked whether
/// they are done before pages move or go back.
///
/// ```
/// use gpucache::{device::OrderUse, prelude::*};
///
/// let (first, second) = (Host::new_stream()?, Host::new_stream()?);
/// let mut array = first.zeros::<f32>(1000)?;
/// assert_eq!(first.ordering(), OrderUse::default());
/// second.launch(&mut array, |array| array.fill(1.0))?; // behind the zeros
/// assert_eq!(first.ordering().waits, 1);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderUse {
    /// Events recorded: at most one per stream and epoch, which ends when its event is recorded.
    pub events: u64,
    /// Questions whether an event is complete.
    pub queries: u64,
    /// Times that a stream was told to wait for an event.
    pub waits: u64,
}

/// The counters behind [`MemoryUse`] and [`OrderUse`].
#[derive(Debug, Default)]
pub(crate) struct Meter {
    allocations: AtomicU64,
    frees: AtomicU64,
    bytes: AtomicU64,
    peak_bytes: AtomicU64,
    events: AtomicU64,
    queries: AtomicU64,
    waits: AtomicU64,
}

impl Meter {
    pub(crate) fn allocated(&self, bytes: u64) {
        self.allocations.fetch_add(1, Relaxed);
        let held = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        self.peak_bytes.fetch_max(held, Relaxed);
    }

    pub(crate) fn freed(&self, bytes: u64) {
        self.frees.fetch_add(1, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
    }

    pub(crate) fn read(&self) -> MemoryUse {
        MemoryUse {
            allocations: self.allocations.load(Relaxed),
            frees: self.frees.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            peak_bytes: self.peak_bytes.load(Relaxed),
        }
    }

    pub(crate) fn recorded(&self) {
        self.events.fetch_add(1, Relaxed);
    }

    pub(crate) fn queried(&self) {
        self.queries.fetch_add(1, Relaxed);
    }

    pub(crate) fn waited(&self) {
        self.waits.fetch_add(1, Relaxed);
    }

    pub(crate) fn read_order(&self) -> OrderUse {
        OrderUse {
            events: self.events.load(Relaxed),
            queries: self.queries.load(Relaxed),
            waits: self.waits.load(Relaxed),
        }
    }
}
