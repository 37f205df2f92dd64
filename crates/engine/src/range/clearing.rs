//! Blocks outside scopes, which come and go at any time: where they lie, and which of them must move. They must move if enough memory is
//! free for a request, but not side by side. The owners of these blocks then move them.
//!
//! The search finds the cheapest place: as long as the request, with the fewest bytes in movable blocks. All of these blocks must fit into
//! free memory elsewhere.

use std::ops;

use super::Carved;
use super::range::Range;
use super::shared::DeviceRange;
use super::spans::{NIL, Node, SpanState};
use crate::base::error::Result;
use crate::device::{Pages, Stream};
use crate::order::Tag;

/// The number of places that are examined closely, the cheapest first.
const PLACES: usize = 16;

/// A stretch that is free, or a block that may be moved.
#[derive(Clone, Copy, Debug)]
struct MovablePiece {
    offset: u64,
    bytes: u64,
    is_free: bool,
}

impl MovablePiece {
    fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

impl DeviceRange {
    /// Whether `bytes` are free but not side by side, and no more memory can be reserved.
    pub fn lies_apart(&self, bytes: u64) -> bool {
        let inner = self.inner();
        let stats = inner.range.stats;
        let is_there = stats.reserved.saturating_sub(stats.live) >= bytes;
        is_there && !inner.range.is_long_enough(bytes) && inner.range.pages.room() < bytes
    }

    /// The addresses of the place for `bytes` that is cheapest to clear for `stream`. Only the blocks at the addresses in `movable`, in
    /// ascending order, may be moved. `None` if there is none.
    pub fn clearing(&self, stream: &Stream, bytes: u64, movable: &[u64]) -> Option<ops::Range<u64>> {
        let inner = &mut *self.inner();
        let me = inner.streams.attend(stream);
        let streams = &inner.streams;
        let may_use = |tag| streams.may_use(me, tag);
        // In a span, addresses are offsets from the range's beginning. In chunks, `begin` is 0 and an offset is the address itself.
        let begin = inner.range.pages.address(0);
        let is_movable = |offset| movable.binary_search(&(begin + offset)).is_ok();
        let place = inner.range.clearing(bytes, may_use, is_movable)?;
        Some(place.start + begin..place.end + begin)
    }

    /// Memory for `bytes` that `stream` may use at once, outside of a place that is being cleared.
    ///
    /// # Errors
    /// As for [`reuse`](DeviceRange::reuse).
    pub(crate) fn reuse_outside(&self, stream: &Stream, bytes: u64, place: &ops::Range<u64>) -> Result<Option<Carved>> {
        let inner = &mut *self.inner();
        inner.check()?;
        let me = inner.streams.attend(stream);
        let streams = &inner.streams;
        let begin = inner.range.pages.address(0);
        let place = place.start.saturating_sub(begin)..place.end.saturating_sub(begin);
        let is_outside = |node: &Node| node.end() <= place.start || place.end <= node.offset;
        let block = inner.range.reuse_at_its_end(bytes, |node| is_outside(node) && streams.may_use(me, node.tag));
        Ok(block.map(|block| inner.carved(me, block, 0, 0)))
    }
}

impl<P: Pages> Range<P> {
    /// The place, by its offsets.
    pub(super) fn clearing(
        &self,
        bytes: u64,
        may_use: impl Fn(Tag) -> bool,
        is_movable: impl Fn(u64) -> bool,
    ) -> Option<ops::Range<u64>> {
        let bytes = self.rounded(bytes)?;
        let runs = self.runs(may_use, is_movable);
        let free: Vec<MovablePiece> = runs.iter().flatten().copied().filter(|piece| piece.is_free).collect();
        let mut windows: Vec<_> = runs.iter().flat_map(|run| windows(run, bytes)).collect();
        windows.sort_by_key(|(_, moved)| *moved);
        let (found, _) = windows.into_iter().take(PLACES).find(|(pieces, _)| fits(pieces, &free))?;
        let (first, last) = (found.first()?, found.last()?);
        Some(first.offset..last.end())
    }

    /// The stretches that are free or may be moved, in order of address. Each list contains neighbours without anything between them.
    fn runs(&self, may_use: impl Fn(Tag) -> bool, is_movable: impl Fn(u64) -> bool) -> Vec<Vec<MovablePiece>> {
        let mut runs = Vec::new();
        for head in self.fit.spans.heads() {
            let (mut id, mut run) = (head, Vec::new());
            while id != NIL {
                let node = self.fit.spans.at(id);
                let is_free = node.state == Some(SpanState::Free);
                let is_usable = match node.state {
                    Some(SpanState::Free) => may_use(node.tag),
                    Some(SpanState::Live) => is_movable(node.offset),
                    Some(SpanState::Hole) | None => false,
                };
                if is_usable {
                    run.push(MovablePiece { offset: node.offset, bytes: node.bytes, is_free });
                } else {
                    runs.push(std::mem::take(&mut run));
                }
                id = node.next;
            }
            runs.push(run);
        }
        runs
    }
}

/// For each piece, the shortest window that begins there and has at least `bytes`, and how many of its bytes must be moved.
fn windows(run: &[MovablePiece], bytes: u64) -> Vec<(&[MovablePiece], u64)> {
    let (mut found, mut end, mut length, mut moved) = (Vec::new(), 0, 0, 0);
    for (begin, first) in run.iter().enumerate() {
        while length < bytes
            && let Some(piece) = run.get(end)
        {
            length += piece.bytes;
            moved += if piece.is_free { 0 } else { piece.bytes };
            end += 1;
        }
        if length < bytes {
            break;
        }
        found.push((&run[begin..end], moved));
        length -= first.bytes;
        moved -= if first.is_free { 0 } else { first.bytes };
    }
    found
}

/// Whether all blocks to be moved among these pieces fit into free memory elsewhere. The largest is placed first, each where it fits best.
fn fits(pieces: &[MovablePiece], free: &[MovablePiece]) -> bool {
    let [Some(first), Some(last)] = [pieces.first(), pieces.last()] else { return false };
    let is_outside = |piece: &&MovablePiece| piece.end() <= first.offset || last.end() <= piece.offset;
    let mut left: Vec<u64> = free.iter().filter(is_outside).map(|piece| piece.bytes).collect();
    let mut moved: Vec<u64> = pieces.iter().filter(|piece| !piece.is_free).map(|piece| piece.bytes).collect();
    moved.sort_unstable();
    moved.into_iter().rev().all(|bytes| {
        let best = left.iter_mut().filter(|left| **left >= bytes).min_by_key(|left| **left);
        best.map(|left| *left -= bytes).is_some()
    })
}
