//! Divides a block: pieces of it become blocks of their own, and the rest becomes free.

use super::fit::{Fit, RangeBlock};
use super::range::Range;
use super::spans::SpanState;
use super::{ALIGN, Tag};
use crate::device::Pages;

impl<P: Pages> Range<P> {
    /// Divides a block. Each of `pieces`, given by its offset in the block and its bytes, becomes a block, rounded like all blocks. The
    /// rest is freed, and the work that `tag` names may still use it.
    ///
    /// The pieces must be in order, must not overlap, and must lie within the block at multiples of [`ALIGN`]. The first piece that breaks
    /// these rules ends the list: it and all later ones count as the rest. So the returned blocks are those of the first pieces, one each.
    /// For a block of another range, nothing changes and no block is returned.
    pub(super) fn split(&mut self, block: RangeBlock, pieces: &[(u64, u64)], tag: Tag) -> Vec<RangeBlock> {
        let Some(whole) = self.fit.bytes(&block) else { return Vec::new() };
        self.fit.spans.at_mut(block.node).tag = tag;
        let mut blocks = Vec::with_capacity(pieces.len());
        let (mut at, mut kept, mut large) = (0, 0, 0);
        for &(offset, bytes) in pieces {
            let Some(bytes) = self.rounded(bytes) else { break };
            let Some(end) = end_of(offset, bytes).filter(|&end| at <= offset && end <= whole) else { break };
            blocks.push(self.fit.detach(block.node, offset - at, bytes));
            (at, kept, large) = (end, kept + bytes, large + self.large(bytes));
        }
        self.fit.free_rest(block.node);
        self.stats.live -= whole - kept;
        self.stats.large_blocks = self.stats.large_blocks + large - self.large(whole);
        blocks
    }
}

/// The end of a piece. `None` if it overflows, or if the piece may not begin at this offset.
fn end_of(offset: u64, bytes: u64) -> Option<u64> {
    offset.checked_add(bytes).filter(|_| offset.is_multiple_of(ALIGN))
}

impl Fit {
    /// Frees the first `gap` bytes of the live node `id`, and makes a block of the next `bytes`. The node keeps the rest, which may be 0
    /// bytes.
    fn detach(&mut self, id: u32, gap: u64, bytes: u64) -> RangeBlock {
        if gap > 0 {
            let gap = self.spans.split_off(id, gap, SpanState::Live);
            self.coalesce(gap);
        }
        let node = self.spans.split_off(id, bytes, SpanState::Live);
        RangeBlock { node, offset: self.spans.at(node).offset }
    }

    /// Frees the rest of a node that [`detach`](Fit::detach) left.
    fn free_rest(&mut self, id: u32) {
        if self.spans.at(id).bytes > 0 {
            self.coalesce(id);
        } else {
            self.spans.remove(id);
        }
    }
}
