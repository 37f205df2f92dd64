//! A range with the streams that use its memory. It decides which stream may use which memory at once, and which stream must wait for which
//! work.
//!
//! Invariant: the stream of a block that is handed out is ordered behind all work that used its memory before. All of this happens under
//! the lock of [`DeviceRange`](super::DeviceRange), and no call waits.

use std::time::{Duration, Instant};

use super::exchanges::Exchanges;
use super::fit::EVERY_SPAN;
use super::range::Backing;
use super::sizing;
use super::waits::{Waits, earned};
use super::{Range, RangeBlock, RangeError};
use crate::base::error::{Error, Result};
use crate::device::{Pages, Source, Stream};
use crate::order::{Streams, Tag};

/// Memory that was carved out of a range.
pub(crate) struct Carved {
    pub(crate) block: RangeBlock,
    pub(crate) address: u64,
    /// The number of handles that were mapped for it and unmapped elsewhere.
    pub(crate) calls: u64,
    pub(crate) taken: Obtained,
    /// The bytes in use in the range, these included.
    pub(crate) live: u64,
}

/// How often the device was asked for memory and provided it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Obtained {
    /// Calls of its allocator.
    pub(crate) allocations: u64,
    /// Pieces of memory mapped.
    pub(crate) pieces: u64,
}

impl Obtained {
    /// One allocation.
    pub(crate) const ALLOCATION: Obtained = Obtained { allocations: 1, pieces: 0 };

    pub(crate) fn is_any(self) -> bool {
        self != Obtained::default()
    }
}

/// The state of a range, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeState {
    /// Bytes reserved from the device.
    pub(crate) reserved: u64,
    /// Bytes in blocks.
    pub(crate) live: u64,
    /// The peak of bytes in blocks that is expected again.
    pub(crate) peak_live: u64,
    /// The peak of bytes reserved from the device.
    pub(crate) peak_reserved: u64,
    /// How often memory was freed.
    pub(crate) frees: u64,
    /// The bytes that were freed.
    pub(super) freed: u64,
    pub(super) exchanges: Exchanges,
    /// The unit of mapping.
    pub(crate) granule: u64,
    /// How many more bytes can be reserved, as far as is known of the device and its limits.
    pub(crate) room: u64,
    /// Whether several streams share the memory.
    pub(crate) is_shared: bool,
}

impl RangeState {
    /// The fewest bytes that the range would reserve if it grew by this request.
    pub(crate) fn after_growth(&self, bytes: u64) -> u64 {
        let step = sizing::step(self.peak_live.max(self.live.saturating_add(bytes)), self.granule);
        self.reserved.saturating_add(bytes.max(step))
    }
}

/// A function that carves a block out of a range. It is given two predicates for tags: which memory the stream may use at once, and which
/// memory nobody uses.
pub(super) type Carve<'a> = dyn Fn(&mut Range<Source>, &dyn Fn(Tag) -> bool, &dyn Fn(Tag) -> bool) -> Result<Option<RangeBlock>, RangeError<Error>>
    + 'a;

/// The number of free spans that a supply examines for one that the stream may use at once. A larger number finds memory more often if many
/// streams share a range, but may cost one query to the device for each stream whose memory is examined. The range examines all spans
/// before it grows.
pub(super) const CANDIDATES: usize = 16;
/// If other streams' work keeps more than this share, 1/4, of the reserved memory from a stream that needs more, long free memory stays apart from
/// short memory in use from then on. In other programs this would cost up to a fifth more memory: short memory divides long memory.
const HELD: u64 = 4;

/// A shared range that reserves more than this many times the bytes that its streams need waits for their work instead of growing.
/// Best fit alone reserves up to 1.6 times what arrays of random size need, and streams divide each other's memory.
const FAR: u64 = 2;
/// The granules that a range may reserve beyond that. In a range of few granules, the gaps between blocks are whole granules.
const FAR_GRANULES: u64 = 4;

pub(super) struct Ordered {
    pub(super) range: Range<Source>,
    pub(super) streams: Streams,
    pub(super) exchanges: Exchanges,
    /// The waits of requests for work, so that the range would not grow.
    waits: Waits,
    /// The beginning of the time of which waits may take a share.
    began: Instant,
    /// The bytes of all blocks that were freed.
    pub(super) freed: u64,
    /// The bytes in blocks, as far as the streams know of them.
    accounted: u64,
}

impl Ordered {
    pub(super) fn new(range: Range<Source>, streams: Streams) -> Ordered {
        Ordered {
            range,
            streams,
            exchanges: Exchanges::default(),
            waits: Waits::default(),
            began: Instant::now(),
            freed: 0,
            accounted: 0,
        }
    }

    /// Takes chunks from `stream` from now on.
    pub(super) fn serve(&mut self, stream: &Stream) {
        let before = self.range.pages.serve(stream);
        before.into_iter().for_each(|backend| self.streams.let_go(backend));
    }

    pub(super) fn free(&mut self, stream: &Stream, block: RangeBlock) {
        let tag = self.streams.free(stream);
        self.freed = self.freed.saturating_add(self.range.free(block, tag));
        self.account(tag.owner());
    }

    /// Notes by how much the bytes in blocks of a stream have changed.
    #[inline]
    pub(super) fn account(&mut self, stream: Option<usize>) {
        let live = self.range.stats.live;
        let before = std::mem::replace(&mut self.accounted, live);
        if let Some(stream) = stream {
            self.streams.hold(stream, live, before);
        }
    }

    pub(super) fn check(&mut self) -> Result<()> {
        self.range.pages.failure.take().map_or(Ok(()), |error| Err(error.deferred()))
    }

    /// Asks all streams how far they are, and merges memory whose users are done.
    pub(super) fn look(&mut self) -> Result<()> {
        let Ordered { range, streams, .. } = self;
        streams.look(false)?;
        if streams.may_differ() {
            range.fit.merge_idle(|tag| streams.is_free_for_all(tag));
        }
        Ok(())
    }

    pub(super) fn reuse(&mut self, stream: &Stream, bytes: u64, most: usize) -> Result<Option<Carved>> {
        let Ordered { range, streams, .. } = self;
        let me = streams.attend(stream);
        let is_own = streams.are_several().then_some(|tag: Tag| tag.owner() == Some(me));
        let is_shared = is_own.is_some();
        let mut block = range.reuse_own_first(bytes, most, is_own, |tag| streams.may_use_now(me, tag))?;
        if block.is_none() && is_shared && most == EVERY_SPAN {
            block = range.reuse_across(bytes, |tag| streams.may_use(me, tag));
        }
        Ok(block.map(|block| self.carved(me, block, 0, 0)))
    }

    /// Free memory for `bytes`, at the place for blocks outside scopes.
    pub(super) fn reuse_at_its_end(&mut self, stream: &Stream, bytes: u64) -> Option<Carved> {
        let Ordered { range, streams, .. } = self;
        let me = streams.attend(stream);
        let block = range.reuse_at_its_end(bytes, |node| streams.may_use(me, node.tag))?;
        Some(self.carved(me, block, 0, 0))
    }

    /// Memory for `bytes`: free memory, or else free memory together with newly mapped pages.
    pub(super) fn extend(&mut self, stream: &Stream, bytes: u64) -> Result<Carved> {
        if let Some(carved) = self.reuse(stream, bytes, EVERY_SPAN)? {
            return Ok(carved);
        }
        match self.carve(stream, false, &|range, may_use, _| range.extend(bytes, may_use)) {
            Ok(Some(carved)) => Ok(carved),
            Err(RangeError::Pages(error)) => Err(error),
            Ok(None) | Err(RangeError::Unsettled) => Err(exhausted(bytes, &self.range.pages)),
        }
    }

    /// Free memory for `bytes` that other work may still use. The stream waits for that work.
    pub(super) fn reuse_behind(&mut self, stream: &Stream, bytes: u64) -> Result<Option<Carved>> {
        let Ordered { range, streams, .. } = self;
        let me = streams.attend(stream);
        let block = range.reuse_if(bytes, CANDIDATES, |tag| match streams.claim(stream, tag) {
            Err(error) if error.is_unavailable() => Ok(false),
            claimed => claimed.map(|()| true),
        })?;
        Ok(block.map(|block| self.carved(me, block, 0, 0)))
    }

    /// Whether a request may wait for work, so that the range need not grow.
    pub(super) fn may_wait(&self) -> bool {
        !self.waits.are_too_many(self.range.stats.peak_live, self.earned_waits(), self.began.elapsed())
    }

    /// Counts a wait that took so long.
    pub(super) fn count_wait(&mut self, took: Duration) {
        self.waits.count(self.range.stats.peak_live, self.earned_waits(), took);
    }

    fn earned_waits(&self) -> u64 {
        earned(self.streams.frees, self.freed)
    }

    /// Whether the range reserves far more than its streams would need with a pool for each, and work of others holds memory for `bytes`.
    pub(super) fn holds_too_much(&mut self, stream: &Stream, bytes: u64) -> bool {
        let Ordered { range, streams, .. } = self;
        let me = streams.attend(stream);
        let slack = range.granule.saturating_mul(FAR_GRANULES);
        let far = streams.needed(me, bytes).saturating_mul(FAR).saturating_add(slack);
        range.stats.reserved > far && range.barred(|tag| !streams.is_held(me, tag)) >= bytes
    }

    /// Memory for `bytes` that other work still uses. The stream waits for the users of one free span, or else for those of all. If neither
    /// helps, this returns the device's error.
    pub(super) fn seize(&mut self, stream: &Stream, bytes: u64, error: Error) -> Result<Carved> {
        if let Some(carved) = self.reuse_behind(stream, bytes)? {
            return Ok(carved);
        }
        let me = self.streams.attend(stream);
        if !self.streams.are_several() {
            return Err(error);
        }
        self.streams.claim_all(me)?;
        self.extend(stream, bytes)
    }

    /// Runs `carve` on the range for `stream`, and counts the calls that it made. If it `leaves_unsettled`, pages that unknown work may use
    /// stay mapped.
    pub(super) fn carve(
        &mut self,
        stream: &Stream,
        leaves_unsettled: bool,
        carve: &Carve<'_>,
    ) -> Result<Option<Carved>, RangeError<Error>> {
        let Ordered { range, streams, .. } = self;
        let me = streams.attend(stream);
        // A small block in the middle of a chunk would keep all of the chunk. In a span, it keeps a page.
        let is_shared_span = range.backing == Backing::Span && streams.are_several();
        range.fit.keeps_apart =
            is_shared_span && range.barred(|tag| !streams.is_held(me, tag)) > range.stats.reserved / HELD;
        let settled = streams.unknown.settled();
        range.settled = settled;
        let before = range.stats;
        let is_idle = |tag: Tag| streams.is_idle(tag) && (!leaves_unsettled || tag.freed() <= settled);
        let block = carve(range, &|tag| streams.may_use(me, tag), &is_idle)?;
        let after = range.stats;
        let (mapped, unmapped) = (after.map_calls - before.map_calls, after.unmap_calls - before.unmap_calls);
        Ok(block.map(|block| self.carved(me, block, mapped, unmapped)))
    }

    /// The reserved bytes and the bytes in use.
    pub(super) fn occupancy(&self) -> RangeState {
        let stats = self.range.stats;
        RangeState {
            reserved: stats.reserved,
            live: stats.live,
            peak_live: stats.peak_live,
            peak_reserved: stats.peak_reserved,
            frees: self.streams.frees,
            freed: self.freed,
            exchanges: self.exchanges,
            granule: self.range.granule,
            room: self.range.pages.room(),
            is_shared: self.streams.are_several(),
        }
    }

    /// A block of a stream, for which this many handles were mapped and unmapped.
    pub(super) fn carved(&mut self, stream: usize, block: RangeBlock, mapped: u64, unmapped: u64) -> Carved {
        self.account(Some(stream));
        let taken = match self.range.backing {
            Backing::Span => Obtained { allocations: 0, pieces: mapped },
            Backing::Chunks => Obtained { allocations: mapped, pieces: 0 },
        };
        let (address, live) = (self.range.pages.address(block.offset()), self.range.stats.live);
        Carved { address, block, calls: mapped + unmapped, taken, live }
    }
}

/// The error for a lack of contiguous addresses: the device has less memory, or the range has fewer addresses.
fn exhausted(bytes: u64, source: &Source) -> Error {
    let short = |of: &str| Error::out_of_memory(of, bytes as usize, "no free stretch of addresses is as long");
    match (source.capacity(), source.span()) {
        (capacity, _) if 0 < capacity && capacity < bytes => short("the device").of_capacity(capacity),
        (_, Some(span)) => short("the device's range of addresses").of_capacity(span),
        (_, None) => short("the device's range of addresses"),
    }
}
