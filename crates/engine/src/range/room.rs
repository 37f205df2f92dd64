//! Blocks with room to grow: the addresses behind them stay free for them alone.
//!
//! A room is taken from the far end of the last hole and has its own list. Its hole is private, so no window of another block lies in it.
//! Free memory before the hole may serve any block. Addresses cost nothing, and pages are mapped as the block grows. A closed room is
//! opened again once nothing lies in it, so there are only as many rooms as were needed at one time.
//!
//! Invariants: a room's hole is the last node of its list. It is never mapped as a whole, so the node always exists.

use super::GatherLimit;
use super::fit::RangeBlock;
use super::range::{Backing, Range, RangeError};
use super::spans::{END, NIL, SpanState};
use super::window::Window;
use crate::device::Pages;
use crate::order::Tag;

/// The hole behind a block. The owner of the block keeps it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GrowthRoom {
    hole: u32,
}

/// A room takes at most this share of the remaining addresses, so many scopes can have one.
const ROOM_SHARE: u64 = 64;

impl<P: Pages> Range<P> {
    /// Takes `room` bytes of addresses, or fewer if addresses are scarce, for one growing block of at least `bytes`. `None` if too few are
    /// left, or if memory comes in chunks.
    pub(super) fn open_room(&mut self, bytes: u64, room: u64) -> Option<GrowthRoom> {
        if self.backing == Backing::Chunks || !self.fit.spans.has_room() {
            return None;
        }
        // At least one granule always stays unmapped.
        let least = bytes.checked_add(self.granule)?;
        let is_empty = |hole: &u32| self.fit.spans.at(*hole).prev == NIL && self.fit.spans.at(*hole).bytes >= least;
        if let Some(place) = self.closed_rooms.iter().position(is_empty) {
            return Some(GrowthRoom { hole: self.closed_rooms.swap_remove(place) });
        }
        let left = self.fit.spans.at(END).bytes;
        let room = room.min(left / ROOM_SHARE) / self.granule * self.granule;
        if room < least {
            return None;
        }
        let end = self.fit.spans.at_mut(END);
        end.bytes -= room;
        let offset = end.end();
        Some(GrowthRoom { hole: self.fit.spans.private_hole(offset, room) })
    }

    /// Keeps the addresses of a room for the next one.
    pub(super) fn close_room(&mut self, room: GrowthRoom) {
        self.closed_rooms.push(room.hole);
    }

    /// A block of at least `bytes` at the beginning of a room; or `bytes` more for `block`, whose room it is. Returns the block and the
    /// bytes that were added. Afterwards the reserved memory is within `limit`, as for [`gather`](Range::gather). `None` if that is not
    /// possible. The added bytes are whole granules, so no other block comes to lie where this one is to grow.
    ///
    /// # Errors
    /// As for [`gather`](Range::gather).
    pub(super) fn grow_in(
        &mut self,
        room: &GrowthRoom,
        block: Option<&RangeBlock>,
        bytes: u64,
        limit: GatherLimit,
        may_use: impl Fn(Tag) -> bool,
        is_idle: impl Fn(Tag) -> bool,
    ) -> Result<Option<(RangeBlock, u64)>, RangeError<P::Error>> {
        let Some(rounded) = self.rounded(bytes).and_then(|bytes| bytes.checked_next_multiple_of(self.granule)) else {
            return Ok(None);
        };
        let Some(window) = self.window_in(room, block, rounded, &may_use) else { return Ok(None) };
        let Some(idle) = self.in_exchange_for(window.missing, Some(window), limit, &may_use, is_idle) else {
            return Ok(None);
        };
        self.move_out(&idle)?;
        let grown = match window.missing {
            0 => Some(self.fit.spans.at(room.hole).prev),
            _ => {
                let handle = self.handle_of(rounded);
                self.map_all(&window.stretches(&self.fit.spans, self.granule, handle, 0)).map_err(RangeError::Pages)?
            }
        };
        self.stats.peak_reserved = self.stats.peak_reserved.max(self.stats.reserved);
        let Some(free) = grown else { return Ok(None) };
        let added = self.fit.carve(free, window.offset, rounded);
        let whole = match block {
            None => {
                self.count(rounded);
                added
            }
            Some(block) => self.join(block, added, rounded),
        };
        Ok(Some((whole, rounded)))
    }

    /// The window of `bytes` that begins at the end of a block, or at the room's beginning.
    fn window_in(
        &self,
        room: &GrowthRoom,
        block: Option<&RangeBlock>,
        bytes: u64,
        may_use: &impl Fn(Tag) -> bool,
    ) -> Option<Window> {
        let hole = self.fit.spans.at(room.hole);
        let (mut first, mut free) = (room.hole, 0);
        if self.fit.spans.state(hole.prev) == Some(SpanState::Free) {
            may_use(self.fit.spans.at(hole.prev).tag).then_some(())?;
            (first, free) = (hole.prev, self.fit.spans.at(hole.prev).bytes);
        }
        let before = self.fit.spans.at(first).prev;
        let is_last = block.map_or(before == NIL, |block| before == block.node && self.fit.bytes(block).is_some());
        let missing = bytes.saturating_sub(free).checked_next_multiple_of(self.granule)?;
        let has_room = is_last && missing + self.granule <= hole.bytes;
        has_room.then(|| Window::ahead(self.fit.spans.at(first).offset, bytes, missing, first))
    }

    /// Makes one block of two neighbours.
    fn join(&mut self, block: &RangeBlock, added: RangeBlock, bytes: u64) -> RangeBlock {
        let before = self.fit.spans.at(block.node).bytes;
        self.fit.spans.remove(added.node);
        self.fit.spans.at_mut(block.node).bytes += bytes;
        self.stats.large_blocks = self.stats.large_blocks + self.large(before + bytes) - self.large(before);
        self.stats.live += bytes;
        self.stats.peak_live = self.stats.peak_live.max(self.stats.live);
        RangeBlock { node: block.node, offset: block.offset }
    }
}
