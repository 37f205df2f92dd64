//! The memory that is reserved from a device, and its calls, as numbers for a program.

use std::fmt;

use gpucache_engine::base::amounts::{Bytes, Count};
use gpucache_engine::device::Memory;

/// The memory that this process reserves from one device through this crate, inside and outside scopes, and the number of requests to the
/// device since the process began.
///
/// ```
/// use gpucache::{device::Virtual, prelude::*};
///
/// let device = Virtual::new(1 << 30);
/// drop(device.zeros::<u8>(4 << 20)?); // outside scopes
/// let used = device.memory();
/// assert_eq!((used.allocations, used.frees, used.bytes, used.peak_bytes), (1, 1, 0, 4 << 20));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MemoryUse {
    /// Calls of the device's allocator that provided memory: for arrays outside scopes, and for misses with `recycle = "off"` or on a
    /// device without pages.
    pub allocations: u64,
    /// Calls that freed this memory.
    pub frees: u64,
    /// Pieces of memory that were mapped for scopes. A piece is one or several pages that are mapped and unmapped together. One call may
    /// map several pieces.
    pub mapped_pieces: u64,
    /// Pieces that were unmapped, which returned their memory to the device.
    pub unmapped_pieces: u64,
    /// Reserved bytes now, live or idle: allocated bytes, and the bytes of all mapped pieces. Bytes that the device was asked for, and has
    /// not provided yet, do not count.
    pub bytes: u64,
    /// The peak of reserved bytes since the process began, or since `reset_peaks`.
    pub peak_bytes: u64,
    /// The limit of reserved bytes, if `set_limit` or `GPUCACHE_LIMIT` set one.
    pub limit: Option<u64>,
    /// The soft limit, if `set_limit` set one: idle memory is freed before more bytes than this are reserved.
    pub soft_limit: Option<u64>,
}

impl MemoryUse {
    pub(crate) fn of(memory: &Memory) -> MemoryUse {
        MemoryUse::with(memory, memory.meter().read())
    }

    /// With these counts of the device's meter.
    pub(crate) fn with(memory: &Memory, (calls, bytes, peak_bytes): ([u64; 4], u64, u64)) -> MemoryUse {
        let [allocations, frees, mapped_pieces, unmapped_pieces] = calls;
        let [limit, soft_limit] = [memory.meter().limit(), memory.meter().soft_limit()]
            .map(|limit| Some(limit).filter(|&bytes| bytes < u64::MAX));
        MemoryUse { allocations, frees, mapped_pieces, unmapped_pieces, bytes, peak_bytes, limit, soft_limit }
    }

    /// How often memory was taken from the device: allocations and mapped pieces.
    ///
    /// ```
    /// use gpucache::{cache_scope, device::Virtual, prelude::*};
    ///
    /// let device = Virtual::new(1 << 30);
    /// let outside = device.zeros::<u8>(4 << 20)?; // allocated
    /// let inside = cache_scope!(taking, { device.zeros::<u8>(4096)? }); // in a mapped piece of pages
    /// assert_eq!(device.memory().times_taken(), 2);
    /// # drop((outside, inside));
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn times_taken(&self) -> u64 {
        self.allocations.saturating_add(self.mapped_pieces)
    }

    /// How often memory was returned to the device: frees and unmapped pieces.
    ///
    /// ```
    /// use gpucache::{cache_scope, device::Virtual, invalidate, prelude::*};
    ///
    /// let device = Virtual::new(1 << 30);
    /// cache_scope!(giving, { device.zeros::<u8>(4096)? });
    /// assert_eq!(device.memory().times_given_back(), 0); // the scope keeps the memory
    /// invalidate("giving");
    /// assert_eq!(device.memory().times_given_back(), 1);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn times_given_back(&self) -> u64 {
        self.frees.saturating_add(self.unmapped_pieces)
    }
}

impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryUse { allocations, frees, mapped_pieces, unmapped_pieces, bytes, peak_bytes, limit, soft_limit } =
            self;
        write!(f, "{} reserved, peak {}", Bytes(*bytes), Bytes(*peak_bytes))?;
        limit.map_or(Ok(()), |limit| write!(f, ", limit {}", Bytes(limit)))?;
        soft_limit.map_or(Ok(()), |limit| write!(f, ", soft limit {}", Bytes(limit)))?;
        f.write_str("; ")?;
        let (allocations, frees) = (Count(*allocations, "allocation", "allocations"), Count(*frees, "free", "frees"));
        let mapped = Count(*mapped_pieces, "piece", "pieces");
        write!(f, "{allocations}, {frees}; {mapped} mapped, {unmapped_pieces} unmapped")
    }
}

/// How many calls of a device served to order its streams since the process began. These calls let memory of one stream serve another one.
/// A program with one stream needs none of them to allocate and to free. It needs one only before pages move or are freed, to learn whether
/// the stream is done.
///
/// ```
/// use gpucache::{device::OrderUse, prelude::*};
///
/// let (first, second) = (Host::new_stream()?, Host::new_stream()?);
/// let mut array = first.zeros::<f32>(1000)?;
/// assert_eq!(first.ordering(), OrderUse::default());
/// second.launch(&mut array, |array| array.fill(1.0))?; // waits for the zeros
/// assert_eq!(first.ordering().waits, 1);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct OrderUse {
    /// Events recorded: at most one for each epoch of a stream. An epoch ends when its event is recorded.
    pub events: u64,
    /// Queries whether an event is complete.
    pub queries: u64,
    /// How often a stream was told to wait for an event. The calling thread does not wait then.
    pub waits: u64,
}

impl OrderUse {
    pub(crate) fn of(memory: &Memory) -> OrderUse {
        let [events, queries, waits] = memory.meter().orders();
        OrderUse { events, queries, waits }
    }
}

impl fmt::Display for OrderUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OrderUse { events, queries, waits } = self;
        let (events, waits) = (Count(*events, "event", "events"), Count(*waits, "wait", "waits"));
        write!(f, "{events}, {}, {waits}", Count(*queries, "query", "queries"))
    }
}
