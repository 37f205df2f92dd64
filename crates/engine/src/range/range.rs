//! The range of one device: serves blocks, asks the device for more when nothing fits, gives back what is free.
//!
//! Invariants:
//! * Behind every block and every free span there are pages; `stats.reserved` is the sum of the handles' bytes, and
//!   `stats.live` that of the blocks'.
//! * A call that fails leaves everything as it was, counters of calls aside.

use std::convert::Infallible;

use super::fit::{ANY_LENGTH, Fit, RangeBlock};
use super::handles::{Handles, IdleHandle};
use super::sizing::Sizes;
#[cfg(test)]
use super::spans::RangeSpan;
use super::spans::{NIL, Node};
use super::window;
use super::{ALIGN, sizing};
use crate::device::Pages;
use crate::order::{FreeMoment, Tag};

/// Blocks of at least 1/4 of a granule count as large: they decide how many pages there are, while many smaller ones share one.
const LARGE_BLOCK_SHARE: u64 = 4;
/// Blocks of no scope of at least this share of what is reserved lie at the upper end.
const AT_THE_END: u64 = 32;
/// A span that is longer than a block by this share of it fits nearly as well as one of its length.
const NEAR: u64 = 8;

/// Counters of a range. Sizes in bytes, blocks rounded up to [`ALIGN`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    /// Mapped now.
    pub(super) reserved: u64,
    /// In blocks now.
    pub(super) live: u64,
    /// The largest `reserved` so far.
    pub(super) peak_reserved: u64,
    /// The largest `live` since the last trim: the high-water mark.
    pub(super) peak_live: u64,
    /// Blocks now of at least 1/4 of a granule.
    pub(super) large_blocks: u64,
    /// Handles mapped so far: as many calls on a device that has none for several.
    pub(super) map_calls: u64,
    /// Handles unmapped so far.
    pub(super) unmap_calls: u64,
}

/// Why a request was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(super) enum RangeError<E> {
    /// No stretch of addresses is long enough, with pages or without.
    Exhausted {
        /// What was asked for.
        bytes: u64,
    },
    /// The device refused to map what was missing.
    Pages(E),
    /// Pages are to move that work may use of which nobody tells.
    Unsettled,
}

/// How the device gives memory to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backing {
    /// Pages behind one span of reserved addresses.
    Span,
    /// Contiguous pieces where the device likes.
    Chunks,
}

/// Blocks of one device's memory, best fit, over pages that are mapped when needed.
#[derive(Debug)]
pub(super) struct Range<P> {
    pub(super) pages: P,
    pub(super) granule: u64,
    pub(super) backing: Backing,
    pub(super) fit: Fit,
    pub(super) handles: Handles,
    pub(super) stats: Stats,
    /// The holes of rooms that nobody has.
    pub(super) closed_rooms: Vec<u32>,
    /// Work of which nobody tells uses nothing that was freed at this moment or before.
    pub(super) settled: FreeMoment,
}

impl<P: Pages> Range<P> {
    /// A range over a reserved span of `capacity` bytes of addresses, rounded down to whole granules; nothing is mapped
    /// yet.
    pub(super) fn span(pages: P, capacity: u64) -> Self {
        Self::new(pages, Backing::Span, capacity)
    }

    /// A range over chunks that the device places where it likes; none is taken yet.
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
    /// The smallest mapped free span that fits serves it, the lowest among equals. If none fits, pages are mapped where
    /// the fewest are missing: in a hole, behind the last block, or as a new chunk.
    ///
    /// # Errors
    ///
    /// [`RangeError::Exhausted`] if the addresses do not suffice, [`RangeError::Pages`] if the device refused. Either
    /// way nothing has changed; after blocks were freed or memory was trimmed a retry can help.
    #[cfg(test)]
    pub(super) fn allocate(&mut self, bytes: u64) -> Result<RangeBlock, RangeError<P::Error>> {
        if let Some(block) = self.reuse(bytes) {
            return Ok(block);
        }
        self.extend(bytes, |_| true)
    }

    /// A block for which pages are mapped, where nothing that is mapped already serves: beside what is free, as far as `may_use`
    /// says so of its tag.
    pub(super) fn extend(
        &mut self,
        bytes: u64,
        may_use: impl Fn(Tag) -> bool,
    ) -> Result<RangeBlock, RangeError<P::Error>> {
        let rounded = self.rounded(bytes).ok_or(RangeError::Exhausted { bytes })?;
        let block = self.grow(rounded, may_use)?.ok_or(RangeError::Exhausted { bytes })?;
        self.count(rounded);
        Ok(block)
    }

    /// As [`allocate`](Range::allocate), from what is mapped already.
    #[cfg(test)]
    pub(super) fn reuse(&mut self, bytes: u64) -> Option<RangeBlock> {
        let Ok(block) = self.reuse_if(bytes, super::fit::EVERY_SPAN, |_| Ok::<_, Infallible>(true));
        block
    }

    /// A block from memory that is mapped already and whose tag `accepts`: of the `most` smallest spans that fit the first
    /// that does.
    ///
    /// # Errors
    /// The first that `accepts` returned; nothing has changed then.
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

    /// As [`reuse_if`](Range::reuse_if), but what the asking stream itself freed comes first if it fits nearly as well: nobody
    /// is asked for it, and nobody who works at the same time lacks it.
    ///
    /// # Errors
    /// The first that `accepts` returned; nothing has changed then.
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

    /// A block of what is free and `accepts` its node: at the upper end if it is a large part of what is reserved, and at the lower end
    /// otherwise. What large blocks leave so serves the next ones, as smaller ones do not lie between them.
    pub(super) fn reuse_at_its_end(&mut self, bytes: u64, accepts: impl Fn(&Node) -> bool) -> Option<RangeBlock> {
        let rounded = self.rounded(bytes)?;
        let is_high = rounded >= self.stats.reserved / AT_THE_END;
        let block = self.fit.allocate_at(is_high, rounded, accepts)?;
        self.count(rounded);
        Some(block)
    }

    /// `bytes` as a block has them, unless they overflow or there are as many nodes as can be.
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

    /// What a block of `bytes` adds to the number of large ones.
    #[inline]
    pub(super) fn large(&self, bytes: u64) -> u64 {
        u64::from(bytes >= self.granule / LARGE_BLOCK_SHARE)
    }

    /// Takes a block back, whose memory the work that `tag` names may still use, and returns its bytes; 0, and nothing
    /// happens, if it is a block of another range.
    #[inline]
    pub(super) fn free(&mut self, block: RangeBlock, tag: Tag) -> u64 {
        let Some(bytes) = self.fit.bytes(&block) else { return 0 };
        self.fit.spans.at_mut(block.node).tag = tag;
        self.fit.coalesce(block.node);
        self.stats.live -= bytes;
        self.stats.large_blocks -= self.large(bytes);
        bytes
    }

    /// Gives handles back in which no block lies and whose memory `is_idle` by its tag, as long as `keep` bytes stay
    /// reserved, and returns their bytes.
    ///
    /// # Errors
    ///
    /// The device's, at the first handle that it refused to unmap. What was given back before stays so.
    pub(super) fn trim(&mut self, keep: u64, is_idle: impl Fn(Tag) -> bool) -> Result<u64, P::Error> {
        let before = self.stats.reserved;
        // What was needed before it is not expected again, but for what is kept.
        self.stats.peak_live = self.stats.live.max(self.stats.peak_live.min(keep));
        // From the shortest that can hold a handle, in order: what is left of one comes before it.
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

    /// Bytes that are free and of which `may_use` says by their tag that they may not be used now.
    pub(super) fn barred(&self, may_use: impl Fn(Tag) -> bool) -> u64 {
        let nodes = self.fit.free_spans(0).map(|id| self.fit.spans.at(id));
        nodes.filter(|node| !may_use(node.tag)).map(|node| node.bytes).sum()
    }

    /// Whether free memory of `bytes` lies side by side, whoever uses it.
    pub(super) fn is_long_enough(&self, bytes: u64) -> bool {
        let tail = self.fit.tail;
        let is_tail_long = tail != NIL && self.fit.spans.at(tail).bytes >= bytes;
        is_tail_long || self.fit.bins.find(&self.fit.spans, bytes.max(ALIGN)).is_some()
    }

    /// The longest free stretch.
    pub(super) fn longest_free(&self) -> u64 {
        self.fit.free_spans(0).map(|id| self.fit.spans.at(id).bytes).max().unwrap_or(0)
    }

    /// Every stretch of addresses, in no particular order: blocks, free spans, holes.
    #[cfg(test)]
    pub(super) fn spans(&self) -> impl Iterator<Item = RangeSpan> + '_ {
        self.fit.spans.iter()
    }

    #[cold]
    fn grow(&mut self, bytes: u64, may_use: impl Fn(Tag) -> bool) -> Result<Option<RangeBlock>, RangeError<P::Error>> {
        let grown = match self.backing {
            Backing::Span => self.grow_span(bytes, sizing::step(self.high_water(bytes), self.granule), &may_use),
            Backing::Chunks => self.grow_chunks(bytes),
        };
        self.stats.peak_reserved = self.stats.peak_reserved.max(self.stats.reserved);
        grown.map_err(RangeError::Pages)
    }

    /// Maps what a block of `bytes` bytes lacks, and no more.
    pub(super) fn grow_exactly(
        &mut self,
        bytes: u64,
        may_use: impl Fn(Tag) -> bool,
    ) -> Result<Option<RangeBlock>, RangeError<P::Error>> {
        let grown = match self.backing {
            Backing::Span => self.grow_span(bytes, 0, &may_use),
            Backing::Chunks => self.grow_chunk(bytes, bytes.next_multiple_of(self.granule)),
        };
        self.stats.peak_reserved = self.stats.peak_reserved.max(self.stats.reserved);
        grown.map_err(RangeError::Pages)
    }

    /// Maps what the best window lacks, at least `step` bytes if the device and the hole have as many.
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

    /// How long the handles are that are mapped for a block of `bytes`.
    pub(super) fn handle_of(&self, bytes: u64) -> u64 {
        let mean = self.stats.live.saturating_add(bytes) / (self.stats.large_blocks + 1);
        let capacity = self.pages.capacity().min(self.pages.limit());
        let sizes = Sizes { bytes, mean, high_water: self.high_water(bytes), capacity };
        sizing::handle(sizes, self.granule)
    }

    fn grow_chunks(&mut self, bytes: u64) -> Result<Option<RangeBlock>, P::Error> {
        let granule = self.granule;
        let exact = bytes.checked_next_multiple_of(granule);
        let sizes = exact.zip(sizing::chunk(bytes, self.high_water(bytes), granule));
        let Some((exact, chunk)) = sizes else { return Ok(None) };
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

    /// The high-water mark when `bytes` more are alive.
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
