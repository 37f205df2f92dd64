//! Long handles at the ends of a large block: a handle of which the block needs a part is held whole for as long as the block.
//!
//! A handle of a very large block may have 1/16 of all memory (see `sizing`). A plan's arena that ends in such a one, or a small block
//! that begins in it, would so hold several percent more than it needs, for as long as the scope goes by its plan. So the handle is
//! *cut*: unmapped, and the part that the block needs is mapped anew.

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
    /// If no work uses their memory. Where some does there is no block, so that the caller can wait for it.
    OrWait,
}

impl Cut {
    /// The same without a wait.
    pub(super) fn now(self) -> Cut {
        if self == Cut::OrWait { Cut::IfIdle } else { self }
    }
}

/// A handle is cut if more than this share of what is reserved goes back by that, which takes two calls: handles of usual length are
/// no longer.
const CUT_SHARE: u64 = 1024;

/// So many places are tried: with more handles are unmapped for little.
const MOST_PLACES: u32 = 8;

/// Free memory of one tag at an end of a block, which the block may lie in already.
struct End {
    span: u32,
    /// An address of the block.
    address: u64,
    from: u64,
    to: u64,
    tag: Tag,
}

impl<P: Pages> Range<P> {
    /// The handles to cut for a block that was just carved from the front of a free span; `None` if that has to wait.
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
        let end = End { span: block.node, address: node.end() - 1, from: node.offset, to, tag: node.tag };
        self.cut([end].into_iter(), (node.offset, node.end()), cut, is_idle)
    }

    /// The same for a block that is to be mapped in a window, in order of address.
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
            is_free.then(|| End { span, address, from: node.offset, to: node.end(), tag: node.tag })
        });
        self.cut(ends, (start, end), cut, is_idle)
    }

    /// Cuts where a block of so many bytes is to be mapped. That may lead to another place, where less is missing by then.
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
        ends: impl Iterator<Item = End>,
        block: (u64, u64),
        cut: Cut,
        is_idle: impl Fn(Tag) -> bool,
    ) -> Option<Vec<IdleHandle>> {
        let mut handles = Vec::new();
        let may_cut = cut != Cut::Never && self.backing == Backing::Span;
        for end in ends.filter(|_| may_cut) {
            match self.loose(&end, block) {
                // Work of which nobody tells may use it: it stays whole.
                Some(_) if end.tag.freed() > self.settled => {}
                Some(handle) if is_idle(end.tag) => handles.push(handle),
                Some(_) if cut == Cut::OrWait => return None,
                _ => {}
            }
        }
        // A block may begin and end in one.
        handles.dedup();
        Some(handles)
    }

    /// The handle at this end of a block, if it is far longer than what the block has of it, and all free.
    fn loose(&self, end: &End, (start, behind): (u64, u64)) -> Option<IdleHandle> {
        let (offset, bytes) = self.handles.around(end.address)?;
        let over = (start / self.granule * self.granule).saturating_sub(offset)
            + (offset + bytes).saturating_sub(behind.next_multiple_of(self.granule));
        let is_free = end.from <= offset && offset + bytes <= end.to;
        let is_loose = is_free && over > self.stats.reserved / CUT_SHARE;
        is_loose.then_some(IdleHandle { span: end.span, offset, bytes })
    }
}
