//! Spans in order of address. They are nodes of a slab, linked in lists, so a neighbour is one step away.
//!
//! Invariants:
//! * In a list, each node begins where the previous one ends.
//! * The list of the reserved span covers all of it. It ends with the node [`END`], which is always a hole, perhaps of 0 bytes. Each chunk
//!   has its own list, so nothing can merge across the border of a chunk.
//! * Holes are also in a second list through `left` and `right`, which a hole does not need otherwise (see `bins`).
//! * A free slot is used again before another one is made, so a steady load allocates nothing on the host.

use crate::order::Tag;

/// The number that stands for no node.
pub(super) const NIL: u32 = u32::MAX;
/// The node of the last hole, which no merge removes.
pub(super) const END: u32 = 0;
/// The mark in `left` of a private hole, which belongs to a room and is not in the list of holes. No other block may lie in it.
const PRIVATE: u32 = NIL - 1;

/// The state of a stretch of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanState {
    /// In use by a block.
    Live,
    /// Free, with pages behind all of it.
    Free,
    /// Free, without pages.
    Hole,
}

/// A stretch of addresses in one state, as long as possible.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RangeSpan {
    /// Its first byte: an offset from the start of the reserved span, or in a chunk the device's address.
    pub(super) offset: u64,
    /// Its length in bytes.
    pub(super) bytes: u64,
    /// Its state.
    pub(super) state: SpanState,
}

#[cfg(test)]
impl RangeSpan {
    /// The first byte behind it.
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
    /// `None` for a spare slot; `next` then leads to the next spare one.
    pub(super) state: Option<SpanState>,
    /// The work that may still use the memory, if it is free.
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
        let end = spans.alone(0, capacity, SpanState::Hole);
        spans.link_hole(end);
        spans
    }

    /// The node `id`, which must be in use.
    #[inline]
    pub(super) fn at(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, id: u32) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// The state of node `id`. `None` for a spare slot, for [`NIL`], and for a number without a slot.
    #[inline]
    pub(super) fn state(&self, id: u32) -> Option<SpanState> {
        self.nodes.get(id as usize).and_then(|node| node.state)
    }

    /// The number of slots. All nodes in use have smaller numbers.
    pub(super) fn slots(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Whether as many nodes can still be made as one operation may need.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.nodes.len() < (NIL - 4) as usize
    }

    /// All spans in use, in order of slots.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = RangeSpan> + '_ {
        self.nodes
            .iter()
            .filter_map(|node| node.state.map(|state| RangeSpan { offset: node.offset, bytes: node.bytes, state }))
            .filter(|span| span.bytes > 0)
    }

    /// Makes a new list with one node.
    pub(super) fn alone(&mut self, offset: u64, bytes: u64, state: SpanState) -> u32 {
        let (left, right) = (NIL, NIL);
        self.place(Node { offset, bytes, prev: NIL, next: NIL, left, right, state: Some(state), tag: Tag::NOBODY })
    }

    /// Makes a node of its own of the first `bytes` of node `id`. It keeps the tag, unless it is a hole.
    #[inline]
    pub(super) fn split_off(&mut self, id: u32, bytes: u64, state: SpanState) -> u32 {
        let node = self.at_mut(id);
        let Node { offset, prev, tag, .. } = *node;
        node.offset += bytes;
        node.bytes -= bytes;
        let tag = if state == SpanState::Hole { Tag::NOBODY } else { tag };
        let new = self.place(Node { offset, bytes, prev, next: id, left: NIL, right: NIL, state: Some(state), tag });
        self.at_mut(id).prev = new;
        if let Some(node) = self.nodes.get_mut(prev as usize) {
            node.next = new;
        }
        new
    }

    /// Removes node `id` from its list and keeps the slot for later.
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
    fn place(&mut self, node: Node) -> u32 {
        let id = self.spare;
        if id == NIL {
            self.nodes.push(node);
            return self.slots() - 1;
        }
        self.spare = self.at(id).next;
        *self.at_mut(id) = node;
        id
    }

    /// Makes a hole in its own list, outside the list of holes. Only the code that knows its number can find it.
    pub(super) fn private_hole(&mut self, offset: u64, bytes: u64) -> u32 {
        let id = self.alone(offset, bytes, SpanState::Hole);
        self.at_mut(id).left = PRIVATE;
        id
    }

    /// Whether the node is such a private hole.
    pub(super) fn is_private(&self, id: u32) -> bool {
        self.state(id) == Some(SpanState::Hole) && self.at(id).left == PRIVATE
    }

    /// The first node of each list.
    pub(super) fn heads(&self) -> impl Iterator<Item = u32> + '_ {
        let is_head = |(_, node): &(u32, &Node)| node.state.is_some() && node.prev == NIL;
        (0..).zip(&self.nodes).filter(is_head).map(|(id, _)| id)
    }

    /// The holes, the latest first.
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
