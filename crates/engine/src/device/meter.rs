//! Counts the memory that is reserved from one device, and the calls that order its streams. Only device calls touch these counters, so
//! they cost a warm allocation nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::process::Part;
use super::virtual_memory::Unfinished;
use crate::base::error::Result;
use crate::trace;

/// The counters of a device.
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

    /// The calls that took memory and gave it back: allocations, frees, mapped pieces and unmapped pieces.
    pub fn calls(&self) -> [u64; 4] {
        [&self.allocations, &self.frees, &self.mapped_pieces, &self.unmapped_pieces].map(|calls| calls.load(Relaxed))
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
    pub fn orders(&self) -> [u64; 3] {
        [&self.events, &self.queries, &self.waits].map(|calls| calls.load(Relaxed))
    }
}
