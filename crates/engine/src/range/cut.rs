//! Long handles at the ends of a large block. If a block needs only a part of a handle, the whole handle stays reserved as long as the
//! block.
//!
//! A handle of a very large block may have 1/16 of all memory (see `sizing`). A plan's arena may end in such a handle, or a small block may
//! begin in it. The arena would then reserve several percent more than it needs, for as long as the scope uses the plan. So the handle is
//! *cut*: it is unmapped, and only the part that the block needs is mapped again.

use super::fit::RangeBlock;
use super::handles::IdleHandle;
use super::range::{Backing, Range};
use super::spans::SpanState;
use super::window::Window;
use crate::device::Pages;
use crate::order::Tag;

/// Whether long handles are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Never,
    /// If no work uses their memory.
    IfIdle,
    /// If no work uses their memory. If some work does, there is no block, so the caller can wait for that work.
    OrWait,
}

impl Cut {
    /// The same without a wait.
    pub(super) fn now(self) -> Cut {
        if self == Cut::OrWait { Cut::IfIdle } else { self }
    }
}

/// A handle is cut if more than this share of the reserved memory is returned by that. A cut costs two calls, and handles of usual length
/// are not longer than this.
const CUT_SHARE: u64 = 1024;

/// The most places that are tried. More attempts would unmap handles for little.
const MOST_PLACES: u32 = 8;

/// Free memory with one tag at an end of a block. The block may already lie in it.
struct BlockEnd {
    span: u32,
    /// An address of the block.
    address: u64,
    from: u64,
    to: u64,
    tag: Tag,
}

impl<P: Pages> Range<P> {
    /// The handles to cut for a block that was just carved from the front of a free span. `None` if the cut has to wait for work.
    pub(super) fn cut_carved(
        &self,
        block: &RangeBlock,
        cut: Cut,
        is_idle: impl Fn(Tag) -> bool,
    ) -> Option<Vec<IdleHandle>> {
        let spans = &self.fit.spans;
        let node = spans.at(block.node);
        let has_rest = spans.state(node.next) == Some(SpanState::Free) && spans.at(node.next).tag == node.tag;
        let to = if has_rest { spans.at(node.next).end() } else { node.end() };
        let end = BlockEnd { span: block.node, address: node.end() - 1, from: node.offset, to, tag: node.tag };
        self.cut([end].into_iter(), (node.offset, node.end()), cut, is_idle)
    }

    /// The handles to cut for a block that is to be mapped in a window, in order of address. `None` if the cut has to wait for work.
    pub(super) fn cut_at_ends(
        &self,
        window: Option<Window>,
        cut: Cut,
        is_idle: impl Fn(Tag) -> bool,
    ) -> Option<Vec<IdleHandle>> {
        let Some(window) = window else { return Some(Vec::new()) };
        let spans = &self.fit.spans;
        let (start, end) = (window.offset, window.offset + window.bytes);
        let nodes = std::iter::successors(Some(window.first), |&id| Some(spans.at(id).next));
        let last = nodes.into_iter().find(|&id| spans.at(id).end() >= end)?;
        let ends = [(window.first, start), (last, end - 1)].into_iter().filter_map(|(span, address)| {
            let node = spans.at(span);
            let is_free = node.state == Some(SpanState::Free);
            is_free.then(|| BlockEnd { span, address, from: node.offset, to: node.end(), tag: node.tag })
        });
        self.cut(ends, (start, end), cut, is_idle)
    }

    /// Cuts handles where a block of `bytes` bytes is to be mapped. After a cut, fewer bytes may be missing at another place, which is then
    /// tried too.
    pub(super) fn cut_windows(
        &mut self,
        bytes: u64,
        cut: Cut,
        may_use: &impl Fn(Tag) -> bool,
        is_idle: &impl Fn(Tag) -> bool,
    ) -> Result<(), P::Error> {
        for _ in 0..MOST_PLACES {
            let window = self.lacking(bytes, may_use).and_then(|(_, window)| window);
            match self.cut_at_ends(window, cut.now(), is_idle) {
                Some(handles) if !handles.is_empty() => self.unmap_idle(&handles)?,
                _ => break,
            }
        }
        Ok(())
    }

    fn cut(
        &self,
        ends: impl Iterator<Item = BlockEnd>,
        block: (u64, u64),
        cut: Cut,
        is_idle: impl Fn(Tag) -> bool,
    ) -> Option<Vec<IdleHandle>> {
        let mut handles = Vec::new();
        let may_cut = cut != Cut::Never && self.backing == Backing::Span;
        for end in ends.filter(|_| may_cut) {
            match self.loose(&end, block) {
                // Unknown work may use the handle, so it stays whole.
                Some(_) if end.tag.freed() > self.settled => {}
                Some(handle) if is_idle(end.tag) => handles.push(handle),
                Some(_) if cut == Cut::OrWait => return None,
                _ => {}
            }
        }
        // A block may begin and end in the same handle.
        handles.dedup();
        Some(handles)
    }

    /// The handle at this end of a block, if it is far longer than the block's part of it, and all free.
    fn loose(&self, end: &BlockEnd, (start, behind): (u64, u64)) -> Option<IdleHandle> {
        let (offset, bytes) = self.handles.around(end.address)?;
        let over = (start / self.granule * self.granule).saturating_sub(offset)
            + (offset + bytes).saturating_sub(behind.next_multiple_of(self.granule));
        let is_free = end.from <= offset && offset + bytes <= end.to;
        let is_loose = is_free && over > self.stats.reserved / CUT_SHARE;
        is_loose.then_some(IdleHandle { span: end.span, offset, bytes })
    }
}
