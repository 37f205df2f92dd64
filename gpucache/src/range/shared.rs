//! The range of a device, shared by all scopes, threads and streams of the process, behind a lock.
//!
//! The lock is taken when a scope's lists have nothing, never by a hit. Invariant: a block that is handed out has been
//! ordered behind whatever work used its memory before.

use std::sync::{Arc, PoisonError, Weak};

use super::{Block, Limit, Range, RangeError};
use crate::base::error::{Error, Result};
use crate::base::sync::{Mutex, MutexGuard};
use crate::device::{Memory, Source, Stream};
use crate::order::{Epoch, Streams};

/// The range of one device.
#[derive(Debug)]
pub(crate) struct DeviceRange(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    range: Range<Source>,
    streams: Streams,
    /// Calls that [`exchange`](DeviceRange::exchange) made.
    exchanged: u64,
    /// What a call met that could not return it.
    failure: Option<Error>,
}

/// What is in use may lie apart in a range that reserves this share more than was in use at once.
const APART: u64 = 5;
/// Or by so many pages, if that is more.
const PAGES_APART: u64 = 4;
/// Beyond that pages move before the range grows, by so many calls and one for so many frees.
const CALLS: u64 = 2048;
const FREES: u64 = 16;

/// Memory carved out of a range.
#[derive(Debug)]
pub(crate) struct Carved {
    pub(crate) block: Block,
    pub(crate) address: u64,
    /// Calls to the device that it took.
    pub(crate) calls: u64,
}

/// How much of a range is in use, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occupancy {
    /// Held from the device.
    pub(crate) reserved: u64,
    /// In blocks.
    pub(crate) live: u64,
    /// The most in blocks at once that is expected again.
    pub(crate) peak_live: u64,
    /// The most that was ever held from the device.
    pub(crate) peak_reserved: u64,
    /// How often something was freed.
    pub(crate) frees: u64,
    /// Calls by which pages moved though the range could have grown.
    pub(crate) exchanged: u64,
    /// The least that can be mapped.
    pub(crate) granule: u64,
}

impl DeviceRange {
    /// The range of the device that `stream` is of, made the first time; `None` if it is to have none.
    #[inline]
    pub(crate) fn of(stream: &Stream) -> Option<&DeviceRange> {
        let memory = stream.memory();
        if !memory.has_range() {
            return None;
        }
        memory.range(|| {
            let source = Source::of(stream);
            let range = match source.span() {
                Some(bytes) => Range::span(source, bytes),
                None => Range::chunks(source),
            };
            devices().push(Arc::downgrade(memory));
            let streams = Streams::new(memory.meter().clone());
            DeviceRange(Mutex::new(Inner { range, streams, exchanged: 0, failure: None }))
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for `bytes` from what the device has given already; `None` if nothing there is long enough.
    ///
    /// # Errors
    /// A failure of the device to order `stream` behind the memory's last use.
    pub(crate) fn reuse(&self, stream: &Stream, bytes: u64) -> Result<Option<Carved>> {
        let inner = &mut *self.inner();
        inner.check()?;
        match inner.range.reuse(bytes) {
            Some(block) => inner.claim(stream, block, 0).map(Some),
            None => Ok(None),
        }
    }

    /// Memory for `bytes`, with more from the device if need be.
    ///
    /// # Errors
    /// [`is_out_of_memory`](Error::is_out_of_memory) if neither memory nor addresses suffice; a failure of the device.
    pub(crate) fn allocate(&self, stream: &Stream, bytes: u64) -> Result<Carved> {
        let inner = &mut *self.inner();
        inner.range.pages_mut().serve(stream);
        let before = inner.range.stats().map_calls;
        let block = inner.range.allocate(bytes).map_err(|error| match error {
            RangeError::Pages(error) => error,
            RangeError::Exhausted { bytes } => exhausted(bytes),
        })?;
        let calls = inner.range.stats().map_calls - before;
        inner.claim(stream, block, calls)
    }

    /// Memory for `bytes`, contiguous in addresses, after which what is reserved is within `limit`: free pages are
    /// unmapped for those that it lacks, and only then the device's work is waited for. `None`, and nothing has changed,
    /// if the free pages are not enough, or in use by work that must not be waited for here.
    ///
    /// # Errors
    /// A failure of the device, or of work on it.
    pub(crate) fn gather(&self, stream: &Stream, bytes: u64, limit: Limit) -> Result<Option<Carved>> {
        let inner = &mut *self.inner();
        inner.range.pages_mut().serve(stream);
        let before = inner.range.stats();
        let Inner { range, streams, .. } = inner;
        let mut is_in_use = false;
        let settle = || match streams.settle()? {
            true => Ok(()),
            false => {
                is_in_use = true;
                Err(exhausted(bytes))
            }
        };
        let block = match range.gather(bytes, limit, settle) {
            Ok(block) => block,
            Err(_) if is_in_use => None,
            Err(RangeError::Pages(error)) => return Err(error),
            Err(RangeError::Exhausted { bytes }) => return Err(exhausted(bytes)),
        };
        let after = inner.range.stats();
        let calls = after.map_calls - before.map_calls + after.unmap_calls - before.unmap_calls;
        block.map(|block| inner.claim(stream, block, calls)).transpose()
    }

    /// Memory for `bytes` if the range would have to reserve far more than was in use at once: free pages make up for
    /// those that are missing, as far as they can. `None` if it may grow without that, or pages moved too often.
    ///
    /// # Errors
    /// As for [`gather`](DeviceRange::gather).
    pub(crate) fn exchange(&self, stream: &Stream, bytes: u64) -> Result<Option<Carved>> {
        let Occupancy { reserved, live, peak_live, frees, exchanged, granule, .. } = self.occupancy();
        let due = peak_live.max(live.saturating_add(bytes));
        // Where there is little memory, blocks and pages are of like size, and lie apart by whole pages.
        let aim = due.saturating_add((due / APART).max(PAGES_APART * granule));
        if reserved.saturating_add(bytes) <= aim || exchanged > CALLS + frees / FREES {
            return Ok(None);
        }
        let carved = self.gather(stream, bytes, Limit { aim, most: u64::MAX })?;
        self.inner().exchanged += carved.as_ref().map_or(0, |carved| carved.calls);
        Ok(carved)
    }

    /// Takes a block apart that `stream` orders: each of `pieces`, given by its offset in the block and its bytes,
    /// becomes a block; the rest is free. Pieces are in order, apart from each other and within the block, at multiples
    /// of 256. The first that is not so ends them: only those before it are returned, one block each.
    pub(crate) fn split(&self, stream: &Stream, block: Block, pieces: &[(u64, u64)]) -> Vec<Block> {
        let inner = &mut *self.inner();
        let tag = inner.streams.free(stream);
        inner.range.split(block, pieces, tag)
    }

    /// What is reserved, and in use.
    pub(crate) fn occupancy(&self) -> Occupancy {
        let inner = self.inner();
        let stats = inner.range.stats();
        Occupancy {
            reserved: stats.reserved,
            live: stats.live,
            peak_live: stats.peak_live,
            peak_reserved: stats.peak_reserved,
            frees: inner.streams.frees(),
            exchanged: inner.exchanged,
            granule: inner.range.granule,
        }
    }

    /// The point in the work of `stream` that is now, for [`order`](DeviceRange::order). Calls no device.
    pub(crate) fn used(&self, stream: &Stream) -> Epoch {
        self.inner().streams.used(stream)
    }

    /// Orders later work of `stream` behind that of `other` up to a point that [`used`](DeviceRange::used) gave.
    ///
    /// # Errors
    /// A failure of the device, or a capture on either stream; `stream` must not touch then what `other` used.
    pub(crate) fn order(&self, stream: &Stream, other: &Stream, epoch: Epoch) -> Result<()> {
        self.inner().streams.order(stream, other, epoch)
    }

    /// Takes memory back that `stream` orders.
    pub(crate) fn free(&self, stream: &Stream, block: Block) {
        let inner = &mut *self.inner();
        let tag = inner.streams.free(stream);
        inner.range.free(block, tag);
    }

    /// Gives pages in which no block lies back to the device, as long as `keep` bytes stay reserved. Returns the bytes: 0
    /// while work uses them that must not be waited for here.
    ///
    /// # Errors
    /// A failure of the device, or of work on it.
    pub(crate) fn trim(&self, keep: u64) -> Result<u64> {
        let inner = &mut *self.inner();
        inner.streams.retire();
        let stats = inner.range.stats();
        if stats.reserved <= keep.max(stats.live) {
            return Ok(0);
        }
        match inner.streams.settle()? {
            true => inner.range.trim(keep),
            false => Ok(0),
        }
    }
}

fn exhausted(bytes: u64) -> Error {
    Error::out_of_memory("the device's range of addresses", bytes as usize, "no stretch is as long")
}

/// Gives free pages of every device's range back, as long as what `keep` says of the device stays reserved. A failure is
/// kept for the next call on that range.
pub(crate) fn trim_all(keep: impl Fn(u64) -> u64) {
    for memory in devices().iter().filter_map(Weak::upgrade) {
        if let Some(range) = memory.known_range::<DeviceRange>()
            && let Err(error) = range.trim(keep(memory.id()))
        {
            range.inner().failure.get_or_insert(error);
        }
    }
}

/// The devices that have a range.
fn devices() -> MutexGuard<'static, Vec<Weak<Memory>>> {
    static DEVICES: Mutex<Vec<Weak<Memory>>> = Mutex::new(Vec::new());
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    devices.retain(|memory| memory.strong_count() > 0);
    devices
}

impl Inner {
    fn check(&mut self) -> Result<()> {
        let failure = self.failure.take().or_else(|| self.range.pages_mut().take_failure());
        failure.map_or(Ok(()), |error| Err(error.deferred()))
    }

    fn claim(&mut self, stream: &Stream, block: Block, calls: u64) -> Result<Carved> {
        let tag = self.range.tag(&block);
        let address = self.range.pages().address(block.offset());
        match self.streams.claim(stream, tag) {
            Ok(()) => Ok(Carved { block, address, calls }),
            Err(error) => {
                self.range.free(block, tag);
                Err(error)
            }
        }
    }
}
