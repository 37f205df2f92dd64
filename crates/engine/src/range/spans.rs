//! Spans in order of address: nodes of a slab, linked in lists, so that a neighbour is one step away.
//!
//! Invariants:
//! * Along one list, each node begins where the one before it ends.
//! * The list of the reserved span tiles it whole and ends with the node [`END`], always a hole, perhaps of 0 bytes.
//!   Each chunk has a list of its own, so that nothing can merge across the border of a chunk.
//! * Holes hang in a second list through `left` and `right`, which a hole does not need otherwise (see `bins`).
//! * A slot, once made, is used again before another is made: a steady load allocates nothing on the host.

use crate::order::Tag;

/// No node.
pub(super) const NIL: u32 = u32::MAX;
/// The node of the last hole, which no merge removes.
pub(super) const END: u32 = 0;
/// Stands in `left` of a hole that is no part of the list of holes: a room's, which nobody else may lie in.
const PRIVATE: u32 = NIL - 1;

/// What stands behind a stretch of addresses, and who has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanState {
    /// Given to a block.
    Live,
    /// Free, with pages behind all of it.
    Free,
    /// Free, without pages.
    Hole,
}

/// A stretch of addresses in one state, as long as it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RangeSpan {
    /// Where it begins, in bytes: from the start of the reserved span, or the device's address of memory in a chunk.
    pub(super) offset: u64,
    /// Its length in bytes.
    pub(super) bytes: u64,
    /// What it is.
    pub(super) state: SpanState,
}

#[cfg(test)]
impl RangeSpan {
    /// Where it ends: the first byte behind it.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) left: u32,
    pub(super) right: u32,
    /// `None`: the slot is spare, and `next` leads to another.
    pub(super) state: Option<SpanState>,
    /// Whose work may still use the memory, if it is free.
    pub(super) tag: Tag,
}

impl Node {
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

#[derive(Debug)]
pub(super) struct Spans {
    nodes: Vec<Node>,
    spare: u32,
    holes: u32,
}

impl Spans {
    /// A list of one hole of `capacity` bytes.
    pub(super) fn new(capacity: u64) -> Self {
        let mut spans = Self { nodes: Vec::new(), spare: NIL, holes: NIL };
        let end = spans.alone(RangeSpan { offset: 0, bytes: capacity, state: SpanState::Hole });
        spans.link_hole(end);
        spans
    }

    /// Node `id`, which the caller knows to be in use.
    #[inline]
    pub(super) fn at(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, id: u32) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// The state of node `id`; `None` for a spare slot, for [`NIL`] and for a number that is no slot.
    #[inline]
    pub(super) fn state(&self, id: u32) -> Option<SpanState> {
        self.nodes.get(id as usize).and_then(|node| node.state)
    }

    /// Number of slots: every node in use is below it.
    pub(super) fn slots(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Whether as many nodes as one operation can need are left to be made.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.nodes.len() < (NIL - 4) as usize
    }

    /// Every span in use, in order of slots.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = RangeSpan> + '_ {
        self.nodes
            .iter()
            .filter_map(|node| node.state.map(|state| RangeSpan { offset: node.offset, bytes: node.bytes, state }))
            .filter(|span| span.bytes > 0)
    }

    /// A list of its own with one node.
    pub(super) fn alone(&mut self, span: RangeSpan) -> u32 {
        self.place(span, NIL, NIL)
    }

    #[inline]
    pub(super) fn insert_before(&mut self, id: u32, span: RangeSpan) -> u32 {
        let prev = self.at(id).prev;
        let new = self.place(span, prev, id);
        self.at_mut(id).prev = new;
        if let Some(node) = self.nodes.get_mut(prev as usize) {
            node.next = new;
        }
        new
    }

    /// Takes node `id` out of its list and keeps the slot for later.
    #[inline]
    pub(super) fn remove(&mut self, id: u32) {
        let spare = self.spare;
        let node = self.at_mut(id);
        let (prev, next) = (node.prev, node.next);
        node.state = None;
        node.next = spare;
        self.spare = id;
        if let Some(node) = self.nodes.get_mut(prev as usize) {
            node.next = next;
        }
        if let Some(node) = self.nodes.get_mut(next as usize) {
            node.prev = prev;
        }
    }

    #[inline]
    fn place(&mut self, span: RangeSpan, prev: u32, next: u32) -> u32 {
        let RangeSpan { offset, bytes, state } = span;
        let node = Node { offset, bytes, prev, next, left: NIL, right: NIL, state: Some(state), tag: Tag::NOBODY };
        let id = self.spare;
        if id == NIL {
            self.nodes.push(node);
            return self.slots() - 1;
        }
        self.spare = self.at(id).next;
        *self.at_mut(id) = node;
        id
    }

    /// A hole in a list of its own that is found by nobody: those who know its number alone have it.
    pub(super) fn private_hole(&mut self, offset: u64, bytes: u64) -> u32 {
        let id = self.alone(RangeSpan { offset, bytes, state: SpanState::Hole });
        self.at_mut(id).left = PRIVATE;
        id
    }

    /// Whether the node is a hole that only those have who know its number.
    pub(super) fn is_private(&self, id: u32) -> bool {
        self.state(id) == Some(SpanState::Hole) && self.at(id).left == PRIVATE
    }

    /// The first node of each list.
    pub(super) fn heads(&self) -> impl Iterator<Item = u32> + '_ {
        let is_head = |(_, node): &(u32, &Node)| node.state.is_some() && node.prev == NIL;
        (0..).zip(&self.nodes).filter(is_head).map(|(id, _)| id)
    }

    /// The holes, latest first.
    pub(super) fn holes(&self) -> impl Iterator<Item = u32> + '_ {
        let first = Some(self.holes).filter(|&id| id != NIL);
        std::iter::successors(first, |&id| Some(self.at(id).right).filter(|&id| id != NIL))
    }

    pub(super) fn link_hole(&mut self, id: u32) {
        let head = self.holes;
        self.at_mut(id).left = NIL;
        self.at_mut(id).right = head;
        if head != NIL {
            self.at_mut(head).left = id;
        }
        self.holes = id;
    }

    pub(super) fn unlink_hole(&mut self, id: u32) {
        let (left, right) = (self.at(id).left, self.at(id).right);
        match left {
            NIL => self.holes = right,
            _ => self.at_mut(left).right = right,
        }
        if right != NIL {
            self.at_mut(right).left = left;
        }
    }
}
