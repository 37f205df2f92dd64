//! The range of one device. It serves blocks, maps more memory if nothing fits, and returns free memory.
//!
//! Invariants:
//! * Every block and every free span has pages behind it. `stats.reserved` is the sum of the handles' bytes, and `stats.live` the sum of
//!   the blocks' bytes.
//! * A call that fails changes nothing except counters of calls.

use std::convert::Infallible;

use super::fit::{ANY_LENGTH, Fit, RangeBlock};
use super::handles::{Handles, IdleHandle};
#[cfg(test)]
use super::spans::RangeSpan;
use super::spans::{NIL, Node};
use super::window;
use super::{ALIGN, sizing};
use crate::device::Pages;
use crate::order::{FreeMoment, Tag};

/// Blocks of at least 1/4 of a granule count as large. They determine how many pages there are; many smaller ones share a page.
const LARGE_BLOCK_SHARE: u64 = 4;
/// Blocks outside scopes of at least this share of the reserved memory lie at the upper end.
const AT_THE_END: u64 = 32;
/// A span that is longer than a block by at most this share fits nearly as well as one of the block's length.
const NEAR: u64 = 8;

/// Counters of a range. Sizes are in bytes, and blocks are rounded up to [`ALIGN`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    /// Mapped bytes now.
    pub(super) reserved: u64,
    /// Bytes in blocks now.
    pub(super) live: u64,
    /// The largest `reserved` so far.
    pub(super) peak_reserved: u64,
    /// The largest `live` since the last trim: the high-water mark.
    pub(super) peak_live: u64,
    /// The number of blocks now that have at least 1/4 of a granule.
    pub(super) large_blocks: u64,
    /// Handles mapped so far. A device without calls for several handles needs this many calls.
    pub(super) map_calls: u64,
    /// Handles unmapped so far.
    pub(super) unmap_calls: u64,
}

/// The reason why a request was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeError<E> {
    /// The device refused to map the missing pages.
    Pages(E),
    /// Pages would have to move that work on unknown streams may use.
    Unsettled,
}

/// How the device provides memory to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backing {
    /// Pages behind one span of reserved addresses.
    Span,
    /// Contiguous pieces at addresses that the device chooses.
    Chunks,
}

/// Blocks of one device's memory by best fit, over pages that are mapped on demand.
pub(super) struct Range<P> {
    pub(super) pages: P,
    pub(super) granule: u64,
    pub(super) backing: Backing,
    pub(super) fit: Fit,
    pub(super) handles: Handles,
    pub(super) stats: Stats,
    /// The holes of rooms that no block uses now.
    pub(super) closed_rooms: Vec<u32>,
    /// Work on unknown streams uses no memory that was freed at this moment or before.
    pub(super) settled: FreeMoment,
}

impl<P: Pages> Range<P> {
    /// A range over a reserved span of `capacity` bytes of addresses, rounded down to whole granules. Nothing is mapped yet.
    pub(super) fn span(pages: P, capacity: u64) -> Self {
        Self::new(pages, Backing::Span, capacity)
    }

    /// A range over chunks at addresses that the device chooses. It has no chunk yet.
    pub(super) fn chunks(pages: P) -> Self {
        Self::new(pages, Backing::Chunks, 0)
    }

    fn new(pages: P, backing: Backing, capacity: u64) -> Self {
        let granule = pages.granularity().max(1);
        let fit = Fit::new(capacity / granule * granule);
        let (handles, stats, closed_rooms) = (Handles::default(), Stats::default(), Vec::new());
        Self { pages, granule, backing, fit, handles, stats, closed_rooms, settled: FreeMoment::LAST }
    }

    /// A block of at least `bytes`, and never less than [`ALIGN`].
    ///
    /// The smallest mapped free span that fits serves the block; among spans of equal size, the one at the lowest address. If none fits,
    /// pages are mapped where the fewest are missing: in a hole, behind the last block, or as a new chunk.
    ///
    /// # Errors
    ///
    /// `None` if the addresses do not suffice, [`RangeError::Pages`] if the device refused. In both cases nothing has changed, and a retry
    /// can help after blocks were freed or memory was trimmed.
    #[cfg(test)]
    pub(super) fn allocate(&mut self, bytes: u64) -> Result<RangeBlock, Option<RangeError<P::Error>>> {
        if let Some(block) = self.reuse(bytes) {
            return Ok(block);
        }
        self.extend(bytes, |_| true)?.ok_or(None)
    }

    /// A block for which pages are mapped, if no mapped memory serves it. The block may also use free neighbours if `may_use` accepts their
    /// tags. `None` if no stretch of addresses is long enough, with or without pages.
    pub(super) fn extend(
        &mut self,
        bytes: u64,
        may_use: impl Fn(Tag) -> bool,
    ) -> Result<Option<RangeBlock>, RangeError<P::Error>> {
        self.rounded(bytes).map_or(Ok(None), |rounded| self.grow(rounded, false, may_use))
    }

    /// Like [`allocate`](Range::allocate), from mapped memory only.
    #[cfg(test)]
    pub(super) fn reuse(&mut self, bytes: u64) -> Option<RangeBlock> {
        let Ok(block) = self.reuse_if(bytes, super::fit::EVERY_SPAN, |_| Ok::<_, Infallible>(true));
        block
    }

    /// A block from mapped memory whose tag `accepts` returns `true` for: the first of the `most` smallest spans that fit.
    ///
    /// # Errors
    /// The first error of `accepts`; nothing has changed then.
    #[inline]
    pub(super) fn reuse_if<E>(
        &mut self,
        bytes: u64,
        most: usize,
        accepts: impl FnMut(Tag) -> Result<bool, E>,
    ) -> Result<Option<RangeBlock>, E> {
        let Some(bytes) = self.rounded(bytes) else { return Ok(None) };
        let block = self.fit.allocate_if(bytes, ANY_LENGTH, most, accepts)?;
        if block.is_some() {
            self.count(bytes);
        }
        Ok(block)
    }

    /// Like [`reuse_if`](Range::reuse_if), but prefers memory that the requesting stream freed itself, if it fits nearly as well. No stream
    /// has to be asked for this memory, and other working streams do not miss it.
    ///
    /// # Errors
    /// The first error of `accepts`; nothing has changed then.
    pub(super) fn reuse_own_first<E>(
        &mut self,
        bytes: u64,
        most: usize,
        is_own: Option<impl Fn(Tag) -> bool>,
        accepts: impl FnMut(Tag) -> Result<bool, E>,
    ) -> Result<Option<RangeBlock>, E> {
        let Some((is_own, rounded)) = is_own.zip(self.rounded(bytes)) else {
            return self.reuse_if(bytes, most, accepts);
        };
        let near = rounded.saturating_add(rounded / NEAR);
        let Ok(own) = self.fit.allocate_if(rounded, near, most, |tag| Ok::<_, Infallible>(is_own(tag)));
        match own {
            None => self.reuse_if(bytes, most, accepts),
            own => {
                self.count(rounded);
                Ok(own)
            }
        }
    }

    /// A block from a free span whose node `accepts`. A block that is a large share of the reserved memory lies at the upper end, any other
    /// at the lower end. So smaller blocks do not lie between large ones, and the gaps that large blocks leave serve the next large ones.
    pub(super) fn reuse_at_its_end(&mut self, bytes: u64, accepts: impl Fn(&Node) -> bool) -> Option<RangeBlock> {
        let rounded = self.rounded(bytes)?;
        let is_high = rounded >= self.stats.reserved / AT_THE_END;
        let block = self.fit.allocate_at(is_high, rounded, accepts)?;
        self.count(rounded);
        Some(block)
    }

    /// `bytes` rounded up to the size of a block. `None` if that overflows, or if no more nodes can be made.
    #[inline]
    pub(super) fn rounded(&self, bytes: u64) -> Option<u64> {
        bytes.max(1).checked_next_multiple_of(ALIGN).filter(|_| self.fit.spans.has_room())
    }

    #[inline]
    pub(super) fn count(&mut self, bytes: u64) {
        self.stats.live += bytes;
        self.stats.large_blocks += self.large(bytes);
        self.stats.peak_live = self.stats.peak_live.max(self.stats.live);
    }

    /// 1 if a block of `bytes` counts as large, otherwise 0.
    #[inline]
    pub(super) fn large(&self, bytes: u64) -> u64 {
        u64::from(bytes >= self.granule / LARGE_BLOCK_SHARE)
    }

    /// Takes back a block. The work that `tag` names may still use its memory. Returns its bytes. For a block of another range it changes
    /// nothing and returns 0.
    #[inline]
    pub(super) fn free(&mut self, block: RangeBlock, tag: Tag) -> u64 {
        let Some(bytes) = self.fit.bytes(&block) else { return 0 };
        self.fit.spans.at_mut(block.node).tag = tag;
        self.fit.coalesce(block.node);
        self.stats.live -= bytes;
        self.stats.large_blocks -= self.large(bytes);
        bytes
    }

    /// Unmaps handles that contain no block and whose memory `is_idle` by its tag, as long as `keep` bytes stay reserved. Returns their
    /// bytes.
    ///
    /// # Errors
    ///
    /// The device's error, at the first handle that it refused to unmap. Handles unmapped before stay unmapped.
    pub(super) fn trim(&mut self, keep: u64, is_idle: impl Fn(Tag) -> bool) -> Result<u64, P::Error> {
        let before = self.stats.reserved;
        // Memory needed before the trim is not expected to be needed again, except for `keep` bytes.
        self.stats.peak_live = self.stats.live.max(self.stats.peak_live.min(keep));
        // The loop starts at the shortest span that can hold a handle, and goes up by size. The rest of a trimmed span comes before it in
        // this order.
        let mut last = (self.granule, 0);
        while let Some(id) = self.fit.bins.next(&self.fit.spans, last) {
            let span = self.fit.spans.at(id);
            last = (span.bytes, span.offset + 1);
            if is_idle(span.tag) {
                self.trim_span(id, keep)?;
            }
        }
        let tail = self.fit.tail;
        if tail != NIL && is_idle(self.fit.spans.at(tail).tag) {
            self.trim_span(tail, keep)?;
        }
        Ok(before - self.stats.reserved)
    }

    /// Free bytes whose tags `may_use` rejects, so they may not be used now.
    pub(super) fn barred(&self, may_use: impl Fn(Tag) -> bool) -> u64 {
        let nodes = self.fit.free_spans(0).map(|id| self.fit.spans.at(id));
        nodes.filter(|node| !may_use(node.tag)).map(|node| node.bytes).sum()
    }

    /// Whether `bytes` of free memory lie side by side, whichever work may still use them.
    pub(super) fn is_long_enough(&self, bytes: u64) -> bool {
        self.fit.free_spans(bytes).next().is_some()
    }

    /// The length of the longest free stretch.
    pub(super) fn longest_free(&self) -> u64 {
        self.fit.free_spans(0).map(|id| self.fit.spans.at(id).bytes).max().unwrap_or(0)
    }

    /// All stretches of addresses, in no particular order: blocks, free spans and holes.
    #[cfg(test)]
    pub(super) fn spans(&self) -> impl Iterator<Item = RangeSpan> + '_ {
        self.fit.spans.iter()
    }

    /// Maps the pages that a block of `bytes` bytes lacks. No more than that if it `is_exact`.
    #[cold]
    pub(super) fn grow(
        &mut self,
        bytes: u64,
        is_exact: bool,
        may_use: impl Fn(Tag) -> bool,
    ) -> Result<Option<RangeBlock>, RangeError<P::Error>> {
        let step = if is_exact { 0 } else { sizing::step(self.high_water(bytes), self.granule) };
        let grown = match self.backing {
            Backing::Span => self.grow_span(bytes, step, &may_use),
            Backing::Chunks => self.grow_chunks(bytes, is_exact),
        };
        self.stats.peak_reserved = self.stats.peak_reserved.max(self.stats.reserved);
        let block = grown.map_err(RangeError::Pages)?;
        if block.is_some() {
            self.count(bytes);
        }
        Ok(block)
    }

    /// Maps the pages that the best window lacks, but at least `step` bytes if the device and the hole have that many.
    fn grow_span(
        &mut self,
        bytes: u64,
        step: u64,
        may_use: &impl Fn(Tag) -> bool,
    ) -> Result<Option<RangeBlock>, P::Error> {
        let Some(window) = window::best(&self.fit.spans, bytes, self.granule, may_use) else { return Ok(None) };
        let handle = self.handle_of(bytes);
        let extra = step.saturating_sub(window.missing);
        match self.map_all(&window.stretches(&self.fit.spans, self.granule, handle, extra)) {
            Ok(id) => Ok(id.map(|id| self.fit.carve(id, window.offset, bytes))),
            Err(_) if extra > 0 => self.grow_span(bytes, 0, may_use),
            Err(error) => Err(error),
        }
    }

    /// The length of the handles that are mapped for a block of `bytes`.
    pub(super) fn handle_of(&self, bytes: u64) -> u64 {
        let mean = self.stats.live.saturating_add(bytes) / (self.stats.large_blocks + 1);
        let capacity = self.pages.capacity().min(self.pages.limit());
        sizing::handle(bytes, mean, self.high_water(bytes), capacity, self.granule)
    }

    fn grow_chunks(&mut self, bytes: u64, is_exact: bool) -> Result<Option<RangeBlock>, P::Error> {
        let Some(exact) = bytes.checked_next_multiple_of(self.granule) else { return Ok(None) };
        let shared = sizing::chunk(self.high_water(bytes), self.granule);
        let chunk = if is_exact { exact } else { exact.max(shared) };
        match self.grow_chunk(bytes, chunk) {
            Err(_) if exact < chunk => self.grow_chunk(bytes, exact),
            grown => grown,
        }
    }

    fn grow_chunk(&mut self, bytes: u64, chunk: u64) -> Result<Option<RangeBlock>, P::Error> {
        let offset = self.take_chunk(chunk)?;
        let id = self.fit.add_chunk(offset, chunk);
        Ok(Some(self.fit.carve(id, offset, bytes)))
    }

    /// The high-water mark if `bytes` more are live.
    fn high_water(&self, bytes: u64) -> u64 {
        self.stats.peak_live.max(self.stats.live.saturating_add(bytes))
    }

    /// Unmaps handles in the free span `id` as long as `keep` bytes stay reserved.
    fn trim_span(&mut self, id: u32, keep: u64) -> Result<(), P::Error> {
        let span = self.fit.spans.at(id);
        let mut spare = self.stats.reserved.saturating_sub(keep);
        let goes = self.handles.within(span.offset, span.end()).filter(|&(_, bytes)| {
            let goes = bytes <= spare;
            spare -= if goes { bytes } else { 0 };
            goes
        });
        let idle: Vec<IdleHandle> = goes.map(|(offset, bytes)| IdleHandle { span: id, offset, bytes }).collect();
        self.unmap_idle(&idle)
    }
}
