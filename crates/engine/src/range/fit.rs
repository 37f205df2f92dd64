//! Best fit with immediate merging: which free span serves a request, and how spans split and merge.
//!
//! Invariants:
//! * No two neighbours in a list are both free with tags that merge, and no two are both holes. In a range of one span, while
//!   streams wait for each other's memory, a long free span does not merge with a short one that is in use for longer.
//! * `tail` is the free span right before the last hole, if there is one. Every other free span is in `bins`.
//!
//! The tail serves a request only if no other span fits (the "wilderness preservation" of Korn and Vo, "In search of a better malloc",
//! 1985). So blocks lie the same way in a range that still grows and in one that has grown. A load that repeats therefore never needs more
//! memory than it did the first time.

use super::bins::Bins;
use super::spans::{END, NIL, Node, SpanState, Spans};
use crate::order::Tag;

/// Memory of one block. Its owner returns it to [`Range::free`](super::Range::free) of the same range.
///
/// It consists of plain numbers. If it is dropped, the memory stays taken until the range is dropped.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "memory that is not handed back stays taken"]
pub(crate) struct RangeBlock {
    pub(super) node: u32,
    pub(super) offset: u64,
}

impl RangeBlock {
    /// The first byte of the block, a multiple of [`ALIGN`](super::ALIGN): an offset from the start of the reserved span, or in chunks the
    /// device's address.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }
}

/// For a search that accepts spans of any length.
pub(super) const ANY_LENGTH: u64 = u64::MAX;
/// While streams wait for each other's memory, a free span of more than this many times the length of another one stays apart if work may
/// use the other one for longer. Else other streams could use none of it until that work is done, and a stream that always works would keep
/// all of it. Measured with four threads that allocate at random: 100 bytes were reserved for each one in use, and more with each operation.
const APART: u64 = 8;
/// For a search that looks at all free spans that fit.
pub(super) const EVERY_SPAN: usize = usize::MAX;
/// A search for the lowest or the highest place looks at so many free spans that are large enough. The number was chosen: recorded programs have fewer.
const LOOKED_AT: usize = 1024;

pub(super) struct Fit {
    pub(super) spans: Spans,
    pub(super) bins: Bins,
    pub(super) tail: u32,
    /// Whether long spans stay apart from short ones that are in use for longer.
    pub(super) keeps_apart: bool,
}

impl Fit {
    /// One hole of `capacity` bytes.
    pub(super) fn new(capacity: u64) -> Self {
        Self { spans: Spans::new(capacity), bins: Bins::new(), tail: NIL, keeps_apart: false }
    }

    /// A block in the smallest free span of at least `bytes` and at most `longest` whose tag `accepts`; among equal sizes, the lowest
    /// address. It looks at the `most` smallest spans that fit. It uses the tail only if all other spans were looked at and `longest` is
    /// [`ANY_LENGTH`].
    ///
    /// `bytes` is a multiple of [`ALIGN`](super::ALIGN) and not 0, here and below.
    ///
    /// # Errors
    /// The first error of `accepts`; nothing has changed then.
    #[inline]
    pub(super) fn allocate_if<E>(
        &mut self,
        bytes: u64,
        longest: u64,
        most: usize,
        mut accepts: impl FnMut(Tag) -> Result<bool, E>,
    ) -> Result<Option<RangeBlock>, E> {
        let mut found = self.bins.next(&self.spans, (bytes, 0));
        for _ in 0..most {
            let Some(id) = found else { break };
            let Node { bytes: length, offset, tag, .. } = *self.spans.at(id);
            if length > longest {
                return Ok(None);
            }
            if accepts(tag)? {
                self.unlist(id);
                return Ok(Some(self.take(id, bytes)));
            }
            found = self.bins.next(&self.spans, (length, offset + 1));
        }
        if found.is_none() && longest == ANY_LENGTH { self.allocate_tail(bytes, accepts) } else { Ok(None) }
    }

    /// The front of the tail, if the tail is long enough and `accepts` its tag.
    #[inline]
    fn allocate_tail<E>(
        &mut self,
        bytes: u64,
        mut accepts: impl FnMut(Tag) -> Result<bool, E>,
    ) -> Result<Option<RangeBlock>, E> {
        let tail = self.tail;
        if tail != NIL && self.spans.at(tail).bytes >= bytes && accepts(self.spans.at(tail).tag)? {
            self.unlist(tail);
            return Ok(Some(self.take(tail, bytes)));
        }
        Ok(None)
    }

    /// A block in a free span of at least `bytes` that `accepts`: the front of the lowest one, or the end of the highest one if it
    /// `is_high`.
    pub(super) fn allocate_at(
        &mut self,
        is_high: bool,
        bytes: u64,
        accepts: impl Fn(&Node) -> bool,
    ) -> Option<RangeBlock> {
        let mut best = None;
        for id in self.free_spans(bytes).take(LOOKED_AT) {
            let node = self.spans.at(id);
            let is_better = |(_, other): &(u32, u64)| (node.offset > *other) == is_high;
            if best.as_ref().is_none_or(is_better) && accepts(node) {
                best = Some((id, node.offset));
            }
        }
        let (id, offset) = best?;
        let length = self.spans.at(id).bytes;
        let offset = if is_high { offset + length - bytes } else { offset };
        Some(self.carve(id, offset, bytes))
    }

    /// Carves `bytes` at `offset` out of free spans that lie side by side. `id` is one of them that does not begin before `offset`, or
    /// contains it. The rests at both ends keep their tags.
    pub(super) fn carve(&mut self, mut id: u32, offset: u64, bytes: u64) -> RangeBlock {
        while self.spans.at(id).offset > offset {
            id = self.spans.at(id).prev;
        }
        self.unlist(id);
        self.leave_front(id, offset);
        while self.spans.at(id).bytes < bytes {
            self.annex(id, bytes);
        }
        self.take(id, bytes)
    }

    /// Extends node `id`, which is not listed, up to `bytes` by the free span behind it.
    fn annex(&mut self, id: u32, bytes: u64) {
        let Node { bytes: own, next, .. } = *self.spans.at(id);
        self.unlist(next);
        let node = self.spans.at_mut(next);
        let part = node.bytes.min(bytes - own);
        node.offset += part;
        node.bytes -= part;
        if node.bytes > 0 {
            self.list(next);
        } else {
            self.spans.remove(next);
        }
        self.spans.at_mut(id).bytes += part;
    }

    /// Merges neighbouring free spans whose tags `is_idle` accepts: their users are done.
    pub(super) fn merge_idle(&mut self, is_idle: impl Fn(Tag) -> bool) {
        let has_done = |&id: &u32| !self.spans.at(id).tag.has_no_users() && is_idle(self.spans.at(id).tag);
        let mut idle: Vec<u32> = self.free_spans(0).filter(has_done).collect();
        idle.sort_unstable_by_key(|&id| self.spans.at(id).offset);
        // All tags are changed before any span merges with one that has a user.
        for &id in &idle {
            let node = self.spans.at_mut(id);
            node.tag = node.tag.without_users();
        }
        for id in idle {
            // A span that was merged into another one no longer exists.
            if self.spans.state(id) == Some(SpanState::Free) {
                self.unlist(id);
                self.coalesce(id);
            }
        }
    }

    /// Takes `bytes` from the front of the free span `id`, which is not listed, and lists the rest.
    #[inline]
    fn take(&mut self, id: u32, bytes: u64) -> RangeBlock {
        let node = self.spans.at_mut(id);
        let offset = node.offset;
        if node.bytes == bytes {
            node.state = Some(SpanState::Live);
            return RangeBlock { node: id, offset };
        }
        let node = self.spans.split_off(id, bytes, SpanState::Live);
        self.list(id);
        RangeBlock { node, offset }
    }

    /// Lists the part of node `id` before `offset` as a free span of its own.
    #[inline]
    fn leave_front(&mut self, id: u32, offset: u64) {
        let bytes = offset - self.spans.at(id).offset;
        if bytes > 0 {
            let front = self.spans.split_off(id, bytes, SpanState::Free);
            self.list(front);
        }
    }

    /// The free spans of at least `bytes`, not in order of address.
    pub(super) fn free_spans(&self, bytes: u64) -> impl Iterator<Item = u32> + '_ {
        let next = |&id: &u32| self.bins.next(&self.spans, (self.spans.at(id).bytes, self.spans.at(id).offset + 1));
        let tail = Some(self.tail).filter(|&tail| tail != NIL && self.spans.at(tail).bytes >= bytes);
        std::iter::successors(self.bins.next(&self.spans, (bytes, 0)), next).chain(tail)
    }

    /// The bytes of a block. `None` if the block is not of this range or was freed.
    #[inline]
    pub(super) fn bytes(&self, block: &RangeBlock) -> Option<u64> {
        let live = self.spans.state(block.node) == Some(SpanState::Live);
        let node = live.then(|| self.spans.at(block.node))?;
        (node.offset == block.offset).then_some(node.bytes)
    }

    /// Frees the live node `id`. Merges it with its free neighbours, and returns the merged span.
    #[inline]
    pub(super) fn coalesce(&mut self, mut id: u32) -> u32 {
        // A neighbour may have stayed apart from the span beyond it, with which all of it merges now.
        loop {
            let next = self.spans.at(id).next;
            let Some(tag) = self.merged(id, next) else { break };
            self.unlist(next);
            self.swallow(id, next, tag);
        }
        loop {
            let prev = self.spans.at(id).prev;
            let Some(tag) = self.merged(id, prev) else { break };
            self.unlist(prev);
            self.swallow(prev, id, tag);
            id = prev;
        }
        self.spans.at_mut(id).state = Some(SpanState::Free);
        self.list(id);
        id
    }

    /// The tag of node `id` and its neighbour together. `None` if the neighbour is not free or the two do not merge.
    #[inline]
    fn merged(&self, id: u32, neighbour: u32) -> Option<Tag> {
        let is_free = self.spans.state(neighbour) == Some(SpanState::Free);
        let (one, other) = is_free.then(|| (self.spans.at(id), self.spans.at(neighbour)))?;
        let tag = one.tag.merge(other.tag)?;
        let would_hold = |long: &Node, short: &Node| {
            long.bytes / APART > short.bytes && long.tag != tag && !short.tag.has_no_users()
        };
        let stay_apart = self.keeps_apart && (would_hold(one, other) || would_hold(other, one));
        (!stay_apart).then_some(tag)
    }

    /// Merges `right` into its left neighbour.
    #[inline]
    fn swallow(&mut self, left: u32, right: u32, tag: Tag) {
        let bytes = self.spans.at(right).bytes;
        let node = self.spans.at_mut(left);
        node.bytes += bytes;
        node.tag = tag;
        self.spans.remove(right);
    }

    /// Makes `bytes` at `offset` of `hole` free memory, and returns the free span that contains them then.
    ///
    /// A piece of the last hole must begin where the hole begins.
    pub(super) fn map(&mut self, hole: u32, offset: u64, bytes: u64) -> u32 {
        let before = offset - self.spans.at(hole).offset;
        if before > 0 {
            let before = self.spans.split_off(hole, before, SpanState::Hole);
            self.spans.link_hole(before);
        }
        let id = self.spans.split_off(hole, bytes, SpanState::Live);
        if self.spans.at(hole).bytes == 0 && hole != END {
            self.spans.unlink_hole(hole);
            self.spans.remove(hole);
        }
        self.coalesce(id)
    }

    /// Makes `bytes` at `offset` of the free span `id` a hole. Returns the free span that remains behind them, or [`NIL`].
    pub(super) fn unmap(&mut self, id: u32, offset: u64, bytes: u64) -> u32 {
        self.unlist(id);
        self.leave_front(id, offset);
        let hole = self.spans.split_off(id, bytes, SpanState::Hole);
        self.spans.link_hole(hole);
        let rest = self.spans.at(id).bytes;
        if rest > 0 {
            self.list(id);
        } else {
            self.spans.remove(id);
        }
        self.merge_hole(hole);
        if rest > 0 { id } else { NIL }
    }

    /// Merges a hole with the holes beside it.
    fn merge_hole(&mut self, mut hole: u32) {
        let prev = self.spans.at(hole).prev;
        if self.spans.state(prev) == Some(SpanState::Hole) {
            self.absorb(prev, hole);
        }
        let next = self.spans.at(hole).next;
        if self.spans.state(next) == Some(SpanState::Hole) {
            self.absorb(hole, next);
            hole = next;
        }
        let before = self.spans.at(hole).prev;
        if hole == END && self.spans.state(before) == Some(SpanState::Free) {
            self.bins.remove(&mut self.spans, before);
            self.tail = before;
        }
    }

    /// Merges the hole `left` into its neighbour `right`.
    fn absorb(&mut self, left: u32, right: u32) {
        let Node { offset, bytes, .. } = *self.spans.at(left);
        self.spans.unlink_hole(left);
        self.spans.remove(left);
        let node = self.spans.at_mut(right);
        node.offset = offset;
        node.bytes += bytes;
    }

    /// Adds a new chunk, which is one free span.
    pub(super) fn add_chunk(&mut self, offset: u64, bytes: u64) -> u32 {
        let id = self.spans.alone(offset, bytes, SpanState::Free);
        self.list(id);
        id
    }

    /// Removes a chunk that is one free span.
    pub(super) fn remove_chunk(&mut self, id: u32) {
        self.unlist(id);
        self.spans.remove(id);
    }

    /// Lists the free span `id`: as the tail if it lies before the last hole, otherwise in the bins.
    #[inline]
    fn list(&mut self, id: u32) {
        if self.spans.at(id).next == END {
            let last = std::mem::replace(&mut self.tail, id);
            // New memory lies behind the last tail, and did not merge with it.
            if last != NIL {
                self.bins.insert(&mut self.spans, last);
            }
        } else {
            self.bins.insert(&mut self.spans, id);
        }
    }

    #[inline]
    fn unlist(&mut self, id: u32) {
        if id == self.tail {
            self.tail = NIL;
        } else {
            self.bins.remove(&mut self.spans, id);
        }
    }
}
