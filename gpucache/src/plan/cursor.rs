//! The cursor: serves the allocations of an entry in the order of its plan, whatever the program does.
//!
//! A position is *live* from the moment it is served until it comes back, be it entries later. Each live position
//! has a *reuser*, and each position counts the live ones whose reuser it is: its *blockers*. Invariant: for a live
//! position with reuser `r`, none of the positions from `next` up to `r`, in a circle, overlaps its addresses. So a
//! position `next` without blockers overlaps nothing alive: what is alive has its reuser elsewhere, and `next` before
//! that. Whatever is passed over without being served hands its blockers on to the next position that they overlap.
//!
//! In step with the plan a service is a comparison, a look at the blockers, and a step; a return is a mark. Everything
//! else is in `off_order`.

mod off_order;
#[cfg(test)]
mod tests;

use off_order::OffOrder;
pub(crate) use off_order::{Answer, Deviation};

use super::envelope::{ALIGN, Envelope};
use super::reuse::first_reusers;
use super::{Buffer, Layout};

/// Serves positions in order.
///
/// What a return changes lies apart from what a service changes: joined in one wide store, the next load would wait.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Cursor {
    slots: Vec<Slot>,
    /// The position that is expected next; their number at the end.
    next: usize,
    /// Services so far, but for those of this entry, which are told by `next` and by what was passed over.
    served: u64,
    passed_over: u64,
    off_order: OffOrder,
    live_bytes: u64,
}

/// A position, small, so that a step's slots stay in the processor's cache.
#[derive(Clone, Debug)]
struct Slot {
    /// Serves from `least` bytes to `spread` more. No request fits what is not planned.
    least: u64,
    spread: u64,
    /// In units of [`ALIGN`].
    offset: u32,
    /// The reuser when all goes as planned.
    first_reuser: u32,
    /// The reuser while it is live, else [`NOT_LIVE`].
    reuser: u32,
    blockers: u32,
}

const NOT_LIVE: u32 = u32::MAX;
/// Where nothing lies that is not planned.
const NOWHERE: u32 = u32::MAX;

/// A position that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) position: u32,
    /// In bytes from the start of the plan's block.
    pub(crate) offset: u64,
}

impl Cursor {
    /// A cursor over a layout of the envelope's buffers.
    pub(crate) fn new(envelope: &Envelope, buffers: &[Buffer], layout: &Layout) -> Cursor {
        let slot = |(position, first_reuser): (usize, u32)| {
            let Some(expected) = envelope.at(position).filter(|_| buffers[position].size > 0) else {
                return Slot { least: u64::MAX, offset: NOWHERE, ..Slot::of(first_reuser) };
            };
            Slot {
                least: expected.least,
                spread: buffers[position].size - expected.least,
                offset: (layout.offsets[position] / ALIGN) as u32,
                ..Slot::of(first_reuser)
            }
        };
        let slots: Vec<Slot> = first_reusers(buffers, layout).into_iter().enumerate().map(slot).collect();
        Cursor { next: slots.len(), passed_over: slots.len() as u64, slots, ..Cursor::default() }
    }

    /// Begins an entry.
    pub(crate) fn begin(&mut self) {
        let was_complete = self.next == self.slots.len() && !self.off_order.is_cut;
        (self.served, self.passed_over) = (self.served(), 0);
        self.next = 0;
        self.off_order.begin(self.slots.len());
        if self.live_bytes > 0 && !was_complete {
            self.rebase();
        }
    }

    /// Serves the expected position, if this is the expected request.
    #[inline]
    pub(crate) fn serve(&mut self, bytes: u64) -> Option<Served> {
        let position = self.next;
        let slot = self.slots.get_mut(position)?;
        // A live position blocks itself at the latest.
        if !slot.fits(bytes) || slot.blockers != 0 {
            return None;
        }
        let (offset, reuser) = (slot.start(), slot.first_reuser);
        slot.reuser = reuser;
        self.slots[reuser as usize].blockers += 1;
        self.next = position + 1;
        self.live_bytes += bytes;
        Some(Served { position: position as u32, offset })
    }

    /// A position comes back that was served with `bytes`.
    #[inline]
    pub(crate) fn take_back(&mut self, position: u32, bytes: u64) {
        let slot = &mut self.slots[position as usize];
        let reuser = std::mem::replace(&mut slot.reuser, NOT_LIVE);
        self.slots[reuser as usize].blockers -= 1;
        self.live_bytes -= bytes;
    }

    /// Whether nothing was asked for in this entry yet.
    pub(crate) fn is_at_start(&self) -> bool {
        self.next == 0
    }

    /// Counts on where another cursor stopped.
    pub(crate) fn count_on(&mut self, before: &Cursor) {
        // It is at the end of its entry, in which it served nothing.
        (self.served, self.passed_over) = (before.served(), self.next as u64);
    }

    /// Bytes in live positions, as they were asked for.
    #[inline]
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// How often a position was served.
    pub(crate) fn served(&self) -> u64 {
        (self.served + self.next as u64).wrapping_sub(self.passed_over)
    }

    /// How many positions are live.
    pub(crate) fn live(&self) -> u64 {
        match self.live_bytes {
            0 => 0,
            _ => self.slots.iter().filter(|slot| slot.is_live()).count() as u64,
        }
    }

    /// How many positions were not reached.
    pub(crate) fn left(&self) -> u64 {
        (self.slots.len() - self.next) as u64
    }

    /// Takes every live position out of the plan: hands out its number, offset and bytes, in order of address.
    pub(crate) fn evict(&mut self) -> Vec<Evicted> {
        let mut evicted = Vec::new();
        for (position, slot) in self.slots.iter_mut().enumerate() {
            slot.blockers = 0;
            if slot.is_live() {
                slot.reuser = NOT_LIVE;
                evicted.push(Evicted { position: position as u32, offset: slot.start(), bytes: slot.size() });
            }
        }
        evicted.sort_unstable_by_key(|evicted| evicted.offset);
        self.live_bytes = 0;
        self.stop();
        evicted
    }
}

/// A live position that was taken out of its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub(crate) position: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Slot {
    fn of(first_reuser: u32) -> Slot {
        Slot { least: 0, spread: 0, offset: 0, first_reuser, reuser: NOT_LIVE, blockers: 0 }
    }

    #[inline]
    fn fits(&self, bytes: u64) -> bool {
        bytes.wrapping_sub(self.least) <= self.spread
    }

    #[inline]
    fn is_live(&self) -> bool {
        self.reuser != NOT_LIVE
    }

    fn is_planned(&self) -> bool {
        self.offset != NOWHERE
    }

    /// Its first address, in bytes from the start of the plan's block.
    #[inline]
    fn start(&self) -> u64 {
        u64::from(self.offset) * ALIGN
    }

    /// Bytes of its place, which is as large as the largest request that it serves.
    fn size(&self) -> u64 {
        self.least.wrapping_add(self.spread)
    }

    fn overlaps(&self, other: &Slot) -> bool {
        let are_planned = self.is_planned() && other.is_planned();
        are_planned && self.start() < other.start() + other.size() && other.start() < self.start() + self.size()
    }

    /// Serves fewer bytes too.
    fn lower_least(&mut self, bytes: u64) {
        if self.is_planned() && (1..self.least).contains(&bytes) {
            self.spread += self.least - bytes;
            self.least = bytes;
        }
    }
}
