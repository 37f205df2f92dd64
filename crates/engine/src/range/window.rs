//! Where pages are missing least, when no mapped free span is long enough for a request.
//!
//! A window is a stretch of holes and of free spans that may be used, side by side, as long as the request, with a page to
//! map in it. It starts with free spans that a hole follows, or ends with some that a hole precedes, or starts with a hole.
//! The last hole is one among the others: a window there extends the free tail, or appends. Least missing wins, then the
//! lowest address.
//!
//! The search visits every hole. It runs only when pages have to be mapped, which costs far more; a range that was
//! never trimmed has one hole.

use super::spans::{NIL, SpanState, Spans};
use crate::order::Tag;

/// The place of a block, and what it takes to put pages behind all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Bytes to map, in whole granules.
    pub(super) missing: u64,
    /// The node in which it starts.
    pub(super) first: u32,
    /// Which of its ends lies within a hole and may move: the far one, or the near one.
    forward: bool,
}

/// A part of a hole, in whole granules, to be mapped at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) hole: u32,
    pub(super) offset: u64,
    /// The bytes of the handles that it is cut into.
    pub(super) pieces: Vec<u64>,
}

/// The window of `bytes` with the fewest bytes to map, of what `may_use` lets be used by its tag; `None` if nowhere that
/// much is free side by side.
pub(super) fn best(spans: &Spans, bytes: u64, granule: u64, may_use: impl Fn(Tag) -> bool) -> Option<Window> {
    let search = Search { spans, bytes, granule, may_use };
    let at = |hole| [search.forward(hole), search.backward(hole)];
    spans.holes().flat_map(at).flatten().min_by_key(|window| (window.missing, window.offset))
}

struct Search<'a, F> {
    spans: &'a Spans,
    bytes: u64,
    granule: u64,
    may_use: F,
}

impl<F: Fn(Tag) -> bool> Search<'_, F> {
    /// From the free spans before `hole`, or from the hole itself, to the right.
    fn forward(&self, hole: u32) -> Option<Window> {
        let first = self.border(hole, |id| self.spans.at(id).prev);
        let (missing, _) = self.walk(first, |id| self.spans.at(id).next)?;
        Some(Window { offset: self.spans.at(first).offset, bytes: self.bytes, missing, first, forward: true })
    }

    /// From the free spans behind `hole` to the left.
    fn backward(&self, hole: u32) -> Option<Window> {
        let last = self.border(hole, |id| self.spans.at(id).next);
        if last == hole {
            return None;
        }
        let (missing, first) = self.walk(last, |id| self.spans.at(id).prev)?;
        let offset = self.spans.at(last).end() - self.bytes;
        Some(Window { offset, bytes: self.bytes, missing, first, forward: false })
    }

    /// The last of the free spans beside `hole` in one direction that are not long enough without it.
    fn border(&self, hole: u32, towards: impl Fn(u32) -> u32) -> u32 {
        let (mut border, mut bytes) = (hole, 0);
        loop {
            let id = towards(border);
            if self.spans.state(id) != Some(SpanState::Free) || !(self.may_use)(self.spans.at(id).tag) {
                return border;
            }
            bytes += self.spans.at(id).bytes;
            if bytes >= self.bytes {
                return border;
            }
            border = id;
        }
    }

    /// Steps from node `at` until all bytes are covered: what is to be mapped on the way, and the last node.
    fn walk(&self, mut at: u32, next: impl Fn(u32) -> u32) -> Option<(u64, u32)> {
        let (mut rest, mut missing) = (self.bytes, 0);
        loop {
            let state = self.spans.state(at)?;
            let node = self.spans.at(at);
            match state {
                SpanState::Live => return None,
                SpanState::Free if !(self.may_use)(node.tag) => return None,
                SpanState::Free => {}
                SpanState::Hole if self.spans.is_private(at) => return None,
                // Cannot overflow: a hole is a whole number of granules.
                SpanState::Hole => missing += rest.min(node.bytes).next_multiple_of(self.granule),
            }
            if rest <= node.bytes {
                return Some((missing, at));
            }
            rest -= node.bytes;
            at = next(at);
        }
    }
}

impl Window {
    /// The one that begins at `offset`, in node `first`, where so many bytes are missing at its far end.
    pub(super) fn ahead(offset: u64, bytes: u64, missing: u64, first: u32) -> Window {
        Window { offset, bytes, missing, first, forward: true }
    }

    /// Whether it has addresses of these `bytes` at `offset`.
    pub(super) fn meets(&self, offset: u64, bytes: u64) -> bool {
        self.offset < offset + bytes && offset < self.offset + self.bytes
    }

    /// What to map: all of each hole that the window meets, in order of address, and up to `extra` bytes more of the
    /// hole in which its movable end lies; cut into handles of `handle` bytes.
    pub(super) fn stretches(&self, spans: &Spans, granule: u64, handle: u64, extra: u64) -> Vec<Stretch> {
        let (start, end) = (self.offset, self.offset + self.bytes);
        let (low, high) = match self.forward {
            true => (start, end.saturating_add(extra)),
            false => (start.saturating_sub(extra), end),
        };
        let mut stretches = Vec::new();
        let mut at = self.first;
        while at != NIL && spans.at(at).offset < end {
            let node = spans.at(at);
            if node.state == Some(SpanState::Hole) {
                let offset = low.max(node.offset) / granule * granule;
                let bytes = (high.min(node.end()) - offset).next_multiple_of(granule);
                stretches.push(Stretch { hole: at, offset, pieces: cut(bytes, handle) });
            }
            at = node.next;
        }
        stretches
    }
}

/// These bytes as handles of `handle` bytes, the last one of up to twice as many.
fn cut(bytes: u64, handle: u64) -> Vec<u64> {
    let count = (bytes / handle).max(1);
    let mut pieces = vec![handle; count as usize];
    pieces[count as usize - 1] = bytes - (count - 1) * handle;
    pieces
}
