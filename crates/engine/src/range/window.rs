//! Finds the place where the fewest pages are missing, if no mapped free span is long enough for a request.
//!
//! A window is a stretch as long as the request, with at least one page to map. It consists of neighbouring holes and free spans that may
//! be used. It starts with free spans before a hole, ends with free spans behind a hole, or starts with a hole. The last hole is treated
//! like the others: a window there extends the free tail, or appends to the range. The window with the fewest missing bytes wins; among
//! equals, the lowest address.
//!
//! The search visits every hole. It runs only if pages must be mapped, which costs far more. A range that was never trimmed has one hole.

use super::spans::{NIL, SpanState, Spans};
use crate::order::Tag;

/// The place of a block, and the bytes to map so that all of it has pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Bytes to map, in whole granules.
    pub(super) missing: u64,
    /// The node in which it starts.
    pub(super) first: u32,
    /// `true` if the upper end of the window may move further into a hole, `false` if the lower end may.
    forward: bool,
}

/// A part of a hole, in whole granules, that is mapped with one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) hole: u32,
    pub(super) offset: u64,
    /// The bytes of the handles into which it is divided.
    pub(super) pieces: Vec<u64>,
}

/// The window of `bytes` with the fewest bytes to map. It contains only memory whose tags `may_use` accepts. `None` if there is no such
/// window.
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
    /// The window that starts with the free spans before `hole`, or with the hole itself, and goes up.
    fn forward(&self, hole: u32) -> Option<Window> {
        let first = self.border(hole, |id| self.spans.at(id).prev);
        let (missing, _) = self.walk(first, |id| self.spans.at(id).next)?;
        Some(Window { offset: self.spans.at(first).offset, bytes: self.bytes, missing, first, forward: true })
    }

    /// The window that starts with the free spans behind `hole` and goes down.
    fn backward(&self, hole: u32) -> Option<Window> {
        let last = self.border(hole, |id| self.spans.at(id).next);
        if last == hole {
            return None;
        }
        let (missing, first) = self.walk(last, |id| self.spans.at(id).prev)?;
        let offset = self.spans.at(last).end() - self.bytes;
        Some(Window { offset, bytes: self.bytes, missing, first, forward: false })
    }

    /// The farthest of the usable free spans beside `hole` in one direction, as long as they are not long enough without the hole.
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

    /// Steps from node `at` until all bytes are covered. Returns the bytes to map on the way, and the last node.
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
                // This cannot overflow, since a hole is a whole number of granules.
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
    /// A window that begins at `offset`, in node `first`, and lacks `missing` bytes at its upper end.
    pub(super) fn ahead(offset: u64, bytes: u64, missing: u64, first: u32) -> Window {
        Window { offset, bytes, missing, first, forward: true }
    }

    /// Whether the window overlaps these `bytes` at `offset`.
    pub(super) fn meets(&self, offset: u64, bytes: u64) -> bool {
        self.offset < offset + bytes && offset < self.offset + self.bytes
    }

    /// The stretches to map, in order of address: all parts of holes within the window, and up to `extra` more bytes of the hole that
    /// contains its movable end. They are divided into handles of `handle` bytes.
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

/// Divides these bytes into handles of `handle` bytes. The last one may have up to twice as many.
fn cut(bytes: u64, handle: u64) -> Vec<u64> {
    let count = (bytes / handle).max(1);
    let mut pieces = vec![handle; count as usize];
    pieces[count as usize - 1] = bytes - (count - 1) * handle;
    pieces
}
