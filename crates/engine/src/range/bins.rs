//! Free spans in order of size. Finds the smallest span that fits; among spans of equal size, the one at the lowest address.
//!
//! There are two levels of classes, as in TLSF (Masmano, Ripoll, Crespo, Real: "TLSF: a new dynamic memory allocator for real-time
//! systems", 2004). Here there are 64 linear classes for each doubling. So each level is one word of bits, and most classes hold one span
//! or none. Unlike in TLSF, the fit is exact: a class is a treap (Seidel and Aragon, 1996) in order of (bytes, offset), which uses `left`
//! and `right` of the nodes. The expected time of an operation is logarithmic in the number of spans in one class.
//!
//! Invariants:
//! * Bit `b` of `cols[r]` is set exactly if class `64 r + b` has a root. Bit `r` of `rows` is set exactly if `cols[r]` is not 0.
//! * A node's key does not change while the node is in a bin.
//! * Priorities are distinct, since multiplication by an odd number permutes the 32-bit numbers.

use super::ALIGN;
use super::spans::{NIL, Node, Spans};

/// Rows of 64 classes. The largest size, 2^64 - 1 bytes, has 56 bits in units of [`ALIGN`]. The first two rows have 64 units each, and each
/// later row is a doubling, so this size is in row 50, the last one.
const ROWS: usize = 51;

pub(super) struct Bins {
    rows: u64,
    cols: [u64; ROWS],
    roots: Box<[u32]>,
}

/// A place in a treap that holds the number of a node.
#[derive(Clone, Copy)]
enum Link {
    Root(usize),
    Left(u32),
    Right(u32),
}

/// The class of a size. There are 64 for each doubling. Below 128 units, every multiple of [`ALIGN`] has its own class.
#[inline]
fn class(bytes: u64) -> usize {
    let units = bytes / ALIGN;
    let shift = (63 - (units | 1).leading_zeros()).saturating_sub(6);
    ((shift as usize) << 6) + (units >> shift) as usize
}

#[inline]
fn priority(id: u32) -> u32 {
    id.wrapping_mul(0x9E37_79B1)
}

#[inline]
fn key(spans: &Spans, id: u32) -> (u64, u64) {
    let node = spans.at(id);
    (node.bytes, node.offset)
}

impl Bins {
    pub(super) fn new() -> Self {
        Self { rows: 0, cols: [0; ROWS], roots: vec![NIL; ROWS * 64].into_boxed_slice() }
    }

    /// The first class above `class` that is not empty.
    #[inline]
    fn next_class(&self, class: usize) -> Option<usize> {
        let (row, col) = (class / 64, class % 64);
        let above = self.cols[row] & (!1 << col);
        if above != 0 {
            return Some(row * 64 + above.trailing_zeros() as usize);
        }
        let rows = self.rows & (!1 << row);
        let row = rows.trailing_zeros() as usize;
        let cols = self.cols.get(row)?;
        Some(row * 64 + cols.trailing_zeros() as usize)
    }

    /// The first span at or after this place in the order of (bytes, offset).
    #[inline]
    pub(super) fn next(&self, spans: &Spans, from: (u64, u64)) -> Option<u32> {
        let class = class(from.0);
        let is_behind = |node: &Node| (node.bytes, node.offset) >= from;
        let own = self.first(spans, class, is_behind);
        if own != NIL {
            return Some(own);
        }
        Some(self.first(spans, self.next_class(class)?, is_behind))
    }

    /// The first span of `class` that `is_behind` accepts, or [`NIL`]. `is_behind` must accept all spans from some place in the order
    /// (bytes, offset) on, and none before.
    #[inline(always)]
    fn first(&self, spans: &Spans, class: usize, is_behind: impl Fn(&Node) -> bool) -> u32 {
        let (mut best, mut at) = (NIL, self.roots[class]);
        while at != NIL {
            let node = spans.at(at);
            if is_behind(node) {
                best = at;
                at = node.left;
            } else {
                at = node.right;
            }
        }
        best
    }

    /// Adds a node whose `left` and `right` are not in use.
    #[inline]
    pub(super) fn insert(&mut self, spans: &mut Spans, id: u32) {
        let key = key(spans, id);
        let class = class(key.0);
        let (mut link, mut at) = (Link::Root(class), self.roots[class]);
        while at != NIL && priority(at) > priority(id) {
            (link, at) = step(spans, at, key);
        }
        self.set(spans, link, id);
        self.cols[class / 64] |= 1 << (class % 64);
        self.rows |= 1 << (class / 64);
        self.split(spans, id, at, key);
    }

    /// Divides the treap `at` at `key`, and makes the two parts the children of `id`.
    #[inline]
    fn split(&mut self, spans: &mut Spans, id: u32, mut at: u32, key: (u64, u64)) {
        let (mut below, mut above) = (Link::Left(id), Link::Right(id));
        while at != NIL {
            let (link, next) = step(spans, at, key);
            match link {
                Link::Right(_) => {
                    self.set(spans, below, at);
                    below = link;
                }
                _ => {
                    self.set(spans, above, at);
                    above = link;
                }
            }
            at = next;
        }
        self.set(spans, below, NIL);
        self.set(spans, above, NIL);
    }

    /// Removes a node from its class.
    #[inline]
    pub(super) fn remove(&mut self, spans: &mut Spans, id: u32) {
        let key = key(spans, id);
        let class = class(key.0);
        let (mut link, mut at) = (Link::Root(class), self.roots[class]);
        while at != id {
            (link, at) = step(spans, at, key);
        }
        let node = spans.at(id);
        let (left, right) = (node.left, node.right);
        self.join(spans, link, left, right);
        if self.roots[class] == NIL {
            self.cols[class / 64] &= !(1 << (class % 64));
            if self.cols[class / 64] == 0 {
                self.rows &= !(1 << (class / 64));
            }
        }
    }

    /// Joins two treaps into one at `link`. All keys in `left` are below all keys in `right`.
    #[inline]
    fn join(&mut self, spans: &mut Spans, mut link: Link, mut left: u32, mut right: u32) {
        while left != NIL && right != NIL {
            if priority(left) > priority(right) {
                self.set(spans, link, left);
                link = Link::Right(left);
                left = spans.at(left).right;
            } else {
                self.set(spans, link, right);
                link = Link::Left(right);
                right = spans.at(right).left;
            }
        }
        self.set(spans, link, if left != NIL { left } else { right });
    }

    #[inline]
    fn set(&mut self, spans: &mut Spans, link: Link, id: u32) {
        match link {
            Link::Root(class) => self.roots[class] = id,
            Link::Left(at) => spans.at_mut(at).left = id,
            Link::Right(at) => spans.at_mut(at).right = id,
        }
    }
}

/// Goes one step from node `at` towards `wanted`. Returns the link and the node that it holds.
#[inline]
fn step(spans: &Spans, at: u32, wanted: (u64, u64)) -> (Link, u32) {
    let node = spans.at(at);
    if (node.bytes, node.offset) < wanted { (Link::Right(at), node.right) } else { (Link::Left(at), node.left) }
}
