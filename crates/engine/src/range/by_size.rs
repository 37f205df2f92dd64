//! Free spans in order of size. Finds the smallest span that fits; among spans of equal size, the one at the lowest address.
//!
//! They are a treap (Seidel and Aragon, 1996) in order of (bytes, offset), which uses `left` and `right` of the nodes. So it takes no memory
//! of the host's heap. The expected time of an operation is logarithmic in the number of spans.
//!
//! Invariants:
//! * A node's key does not change while the node is in the treap.
//! * Priorities are distinct, since multiplication by an odd number permutes the 32-bit numbers.

use super::spans::{NIL, Spans};

pub(super) struct BySize {
    root: u32,
}

/// A place in the treap that holds the number of a node.
#[derive(Clone, Copy)]
enum Link {
    Root,
    Left(u32),
    Right(u32),
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

impl BySize {
    pub(super) fn new() -> Self {
        Self { root: NIL }
    }

    /// The first span at or after this place in the order of (bytes, offset).
    #[inline]
    pub(super) fn next(&self, spans: &Spans, from: (u64, u64)) -> Option<u32> {
        let (mut best, mut at) = (None, self.root);
        while at != NIL {
            let (link, next) = step(spans, at, from);
            if let Link::Left(_) = link {
                best = Some(at);
            }
            at = next;
        }
        best
    }

    /// Adds a node whose `left` and `right` are not in use.
    #[inline]
    pub(super) fn insert(&mut self, spans: &mut Spans, id: u32) {
        let key = key(spans, id);
        let (mut link, mut at) = (Link::Root, self.root);
        while at != NIL && priority(at) > priority(id) {
            (link, at) = step(spans, at, key);
        }
        self.set(spans, link, id);
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

    /// Removes a node.
    #[inline]
    pub(super) fn remove(&mut self, spans: &mut Spans, id: u32) {
        let key = key(spans, id);
        let (mut link, mut at) = (Link::Root, self.root);
        while at != id {
            (link, at) = step(spans, at, key);
        }
        let node = spans.at(id);
        let (left, right) = (node.left, node.right);
        self.join(spans, link, left, right);
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
            Link::Root => self.root = id,
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
