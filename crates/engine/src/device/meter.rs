//! Counts the memory that is reserved from one device, and the calls that order its streams. Only device calls touch these counters, so
//! they cost a warm allocation nothing.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::process::Part;
use super::virtual_memory::Unfinished;
use crate::base::amounts::{Bytes, Count};
use crate::base::error::Result;
use crate::trace;

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
    /// Reserved bytes now, live or idle: allocated bytes, and the bytes of all mapped pieces.
    pub bytes: u64,
    /// The peak of reserved bytes since the process began, or since `reset_peaks`.
    pub peak_bytes: u64,
    /// The limit of reserved bytes, if `set_limit` or `GPUCACHE_LIMIT` set one.
    pub limit: Option<u64>,
    /// The soft limit, if `set_limit` set one: idle memory is freed before more bytes than this are reserved.
    pub soft_limit: Option<u64>,
}

impl MemoryUse {
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
        write!(f, "{} held, {} at most", Bytes(*bytes), Bytes(*peak_bytes))?;
        limit.map_or(Ok(()), |limit| write!(f, " of {} allowed", Bytes(limit)))?;
        soft_limit.map_or(Ok(()), |limit| write!(f, ", softly {}", Bytes(limit)))?;
        f.write_str("; ")?;
        let (allocations, frees) = (Count(*allocations, "allocation", "allocations"), Count(*frees, "free", "frees"));
        let mapped = Count(*mapped_pieces, "piece", "pieces");
        write!(f, "{allocations}, {frees}; {mapped} mapped, {unmapped_pieces} unmapped")
    }
}

/// The counters behind [`MemoryUse`], and those of the calls that order streams.
#[derive(Debug)]
pub struct Meter {
    /// The number of the device.
    device: u64,
    /// The size of its pages; 0 if it has none.
    page_bytes: u64,
    allocations: AtomicU64,
    frees: AtomicU64,
    mapped_pieces: AtomicU64,
    unmapped_pieces: AtomicU64,
    events: AtomicU64,
    queries: AtomicU64,
    waits: AtomicU64,
    /// The reserved bytes, as a part of the sum over all devices.
    pub(super) part: Arc<Part>,
    pub(super) peak: AtomicU64,
    /// The limit of reserved bytes; `u64::MAX` if there is none.
    pub(super) limit: AtomicU64,
    /// The same for calls that are made softly (`quota`).
    pub(super) soft_limit: AtomicU64,
    /// The device refused to go beyond this many reserved bytes when it was asked last; `u64::MAX` if it never refused. It is less than the
    /// capacity, since the driver and other programs hold memory too. It saves time: a call that fails takes as long as a hundred calls
    /// that succeed.
    pub(super) ceiling: AtomicU64,
}

impl Meter {
    /// The meter of the device with this number, whose pages have this size: 0 if it has none.
    pub(super) fn of(device: u64, page_bytes: u64) -> Meter {
        let (zero, bound) = (|| AtomicU64::new(0), || AtomicU64::new(u64::MAX));
        Meter {
            device,
            page_bytes,
            allocations: zero(),
            frees: zero(),
            mapped_pieces: zero(),
            unmapped_pieces: zero(),
            events: zero(),
            queries: zero(),
            waits: zero(),
            part: Part::of_new_device(),
            peak: zero(),
            limit: bound(),
            soft_limit: bound(),
            ceiling: bound(),
        }
    }

    /// The size of the device's pages; 0 if it has none.
    pub(crate) fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Reports the reserved bytes to the trace, if one is on.
    fn tell(&self) {
        if trace::is_on() {
            trace::reserved(self.held(), self.device, self.page_bytes);
        }
    }

    /// Allocates `bytes` with `call`, if the limits allow it.
    pub(crate) fn allocate<R>(&self, bytes: u64, call: impl FnOnce() -> Result<R>) -> Result<R> {
        self.enter(bytes)?;
        let answer = call();
        match &answer {
            Ok(_) => {
                self.allocations.fetch_add(1, Relaxed);
                self.took();
                self.tell();
            }
            Err(error) => self.undo(bytes, error),
        }
        answer
    }

    pub(crate) fn freed(&self, bytes: u64) {
        self.frees.fetch_add(1, Relaxed);
        self.leave(bytes);
        self.tell();
    }

    /// Maps pieces with `call`, if the limits allow it. An error says how many pieces are mapped.
    pub(super) fn map(&self, pieces: &[u64], call: impl FnOnce() -> Result<(), Unfinished>) -> Result<(), Unfinished> {
        let all = pieces.iter().sum();
        self.enter(all).map_err(|error| Unfinished { mapped: 0, error })?;
        let done = call();
        if let Err(Unfinished { mapped, error }) = &done {
            self.undo(pieces.iter().skip(*mapped).sum(), error);
        }
        let mapped = done.as_ref().err().map_or(pieces.len(), |left| left.mapped.min(pieces.len()));
        self.mapped_pieces.fetch_add(mapped as u64, Relaxed);
        self.took();
        self.tell();
        done
    }

    pub(super) fn unmapped(&self, bytes: u64) {
        self.unmapped_pieces.fetch_add(1, Relaxed);
        self.leave(bytes);
        self.tell();
    }

    /// The current values and the peak.
    pub fn read(&self) -> MemoryUse {
        MemoryUse {
            allocations: self.allocations.load(Relaxed),
            frees: self.frees.load(Relaxed),
            mapped_pieces: self.mapped_pieces.load(Relaxed),
            unmapped_pieces: self.unmapped_pieces.load(Relaxed),
            bytes: self.held(),
            peak_bytes: self.peak.load(Relaxed),
            limit: Some(self.limit()).filter(|&bytes| bytes < u64::MAX),
            soft_limit: Some(self.soft_limit()).filter(|&bytes| bytes < u64::MAX),
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

    /// How often events were recorded, events were queried, and streams were told to wait.
    pub fn read_order(&self) -> [u64; 3] {
        [&self.events, &self.queries, &self.waits].map(|calls| calls.load(Relaxed))
    }
}
