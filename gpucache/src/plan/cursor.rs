//! The cursor: serves the allocations of an entry in the order of its plan, whatever the program does.
//!
//! A position is *live* from the moment it is served until it comes back, be it entries later. Each live position
//! has a *reuser*, which it blocks. Invariant: for a live position with reuser `r`, none of the positions from `next` up
//! to `r`, in a circle, overlaps its addresses. So a position `next` that nothing blocks overlaps nothing alive: what is
//! alive has its reuser elsewhere, and `next` before that. Whatever is passed over without being served hands what
//! blocks it on to the next position that that overlaps.
//!
//! As long as all goes as planned, the reuser of a position is its first one: it blocks by being live alone, and a return
//! is a mark. A position that blocks another one than planned is *displaced*, and counted there. In step with the plan a
//! service is a comparison, a look at those that would block it, and a step; everything else is in `off_order`.

mod off_order;
#[cfg(test)]
mod tests;

use off_order::OffOrder;
pub(crate) use off_order::{Answer, Deviation};

use super::envelope::{ALIGN, Envelope};
use super::reuse::FirstReusers;
use super::{Buffer, Layout};

/// Serves positions in order.
///
/// What a step needs lies in one line of the processor's cache. How many bytes are live is counted by whoever has the block
/// that the positions lie in, and told where that matters.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Cursor {
    /// The position that is expected next; their number at the end.
    next: usize,
    slots: Vec<Slot>,
    /// Of each position; behind them one that is never live, and one that always is.
    lives: Vec<Life>,
    /// The bytes of positions that are live in part: that is all that they keep when the plan's block is given up.
    sizes: Vec<u64>,
    /// Services so far, but for those of this entry, which are told by `next` and by what was passed over.
    served: u64,
    passed_over: u64,
    first_reusers: FirstReusers,
    off_order: OffOrder,
}

/// A position, small, so that a step's slots stay in the processor's cache.
#[derive(Clone, Debug)]
struct Slot {
    /// Serves from `least` bytes to `spread` more. No request fits what is not planned.
    least: u64,
    spread: u64,
    /// The positions whose first reuser it is: none of them may be live. One that always is stands for displaced ones that
    /// it is the reuser of, or for the others where there are more than two.
    before: [u32; 2],
    /// In units of [`ALIGN`].
    offset: u32,
    /// How many displaced positions it is the reuser of.
    blockers: u32,
}

/// Whether a position is live, in a byte, so that those of a long entry stay in the processor's first cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life(u8);

impl Life {
    const IDLE: Life = Life(0);
    /// It takes its place whole, and its reuser is its first one.
    const WHOLE: Life = Life(1);
    /// It takes less than its place: `sizes` tells how much.
    const PARTIAL: u8 = 2;
    /// Its reuser is another one than its first.
    const DISPLACED: u8 = 4;

    fn displaced(self) -> Life {
        Life(self.0 | Life::DISPLACED)
    }

    #[inline]
    fn is_displaced(self) -> bool {
        self.0 & Life::DISPLACED != 0
    }

    fn is_partial(self) -> bool {
        self.0 & Life::PARTIAL != 0
    }
}

/// Where nothing lies that is not planned.
const NOWHERE: u32 = u32::MAX;

/// A position that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) position: u32,
    /// In bytes from the start of the plan's block.
    pub(crate) offset: u64,
    /// Whether it takes its place whole.
    is_whole: bool,
}

impl Cursor {
    /// A cursor over a layout of the envelope's buffers.
    pub(crate) fn new(envelope: &Envelope, buffers: &[Buffer], layout: &Layout) -> Cursor {
        let first_reusers = FirstReusers::of(buffers, layout);
        let slot = |position: usize| {
            let before = first_reusers.first_two(position);
            let Some(expected) = envelope.at(position).filter(|_| buffers[position].size > 0) else {
                return Slot { least: u64::MAX, spread: 0, offset: NOWHERE, blockers: 0, before };
            };
            let (least, spread) = (expected.least, buffers[position].size - expected.least);
            Slot { least, spread, offset: (layout.offsets[position] / ALIGN) as u32, blockers: 0, before }
        };
        let slots: Vec<Slot> = (0..buffers.len()).map(slot).collect();
        let mut lives = vec![Life::IDLE; slots.len() + 1];
        lives.push(Life::WHOLE);
        let sizes = vec![0; slots.len()];
        let (next, passed_over) = (slots.len(), slots.len() as u64);
        Cursor { slots, lives, sizes, next, passed_over, first_reusers, ..Cursor::default() }
    }

    /// Begins an entry, while positions are live if it `has_live` ones.
    pub(crate) fn begin(&mut self, has_live: bool) {
        let was_complete = self.next == self.slots.len() && !self.off_order.is_cut;
        (self.served, self.passed_over) = (self.served(), 0);
        self.next = 0;
        self.off_order.begin(self.slots.len());
        if has_live && !was_complete {
            self.rebase();
        }
    }

    /// The expected position, if this is the expected request and no more than two positions had to be looked at to see
    /// that nothing alive lies there.
    #[inline]
    pub(crate) fn expects(&self, bytes: u64) -> Option<Served> {
        let slot = self.slots.get(self.next)?;
        let [one, other] = slot.before;
        // A live position blocks itself at the latest.
        (slot.fits(bytes) && self.is_idle(one) && self.is_idle(other)).then(|| slot.serve(self.next, bytes))
    }

    /// Serves so many bytes at the position that [`expects`](Cursor::expects) gave. (It is known to the caller: nothing is
    /// read again here.)
    #[inline]
    pub(crate) fn step(&mut self, served: Served, bytes: u64) {
        self.begin_life(served, bytes);
        self.next = served.position as usize + 1;
    }

    #[inline(always)]
    fn begin_life(&mut self, served: Served, bytes: u64) {
        if let Some(life) = self.lives.get_mut(served.position as usize) {
            *life = Life::WHOLE;
            if !served.is_whole {
                *life = Life(Life::WHOLE.0 | Life::PARTIAL);
                self.sizes[served.position as usize] = bytes;
            }
        }
    }

    /// Serves the expected position, if this is the expected request.
    pub(crate) fn serve(&mut self, bytes: u64) -> Option<Served> {
        let position = self.next;
        let slot = self.slots.get(position).filter(|slot| slot.fits(bytes) && slot.blockers == 0)?;
        let served = slot.serve(position, bytes);
        let is_free = self.first_reusers.before(position).iter().all(|&other| self.is_idle(other));
        is_free.then(|| self.step(served, bytes))?;
        Some(served)
    }

    /// A position comes back.
    #[inline]
    pub(crate) fn take_back(&mut self, position: u32) {
        if let Some(life) = self.lives.get_mut(position as usize)
            && std::mem::replace(life, Life::IDLE).is_displaced()
        {
            self.unblock(position);
        }
    }

    #[inline]
    fn is_idle(&self, position: u32) -> bool {
        self.lives.get(position as usize) == Some(&Life::IDLE)
    }

    fn is_live(&self, position: usize) -> bool {
        self.lives[position] != Life::IDLE
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

    /// How often a position was served.
    pub(crate) fn served(&self) -> u64 {
        (self.served + self.next as u64).wrapping_sub(self.passed_over)
    }

    /// How many positions are live.
    pub(crate) fn live(&self) -> u64 {
        (0..self.slots.len()).filter(|&position| self.is_live(position)).count() as u64
    }

    /// How many positions were not reached.
    pub(crate) fn left(&self) -> u64 {
        (self.slots.len() - self.next) as u64
    }

    /// Takes every live position out of the plan: hands out its number and offset, and the bytes that it was served with,
    /// which may be far fewer than it has a place for; in order of address.
    pub(crate) fn evict(&mut self) -> Vec<Evicted> {
        let mut evicted = Vec::new();
        self.forget_displaced();
        for (position, slot) in self.slots.iter().enumerate() {
            let life = std::mem::replace(&mut self.lives[position], Life::IDLE);
            if life != Life::IDLE {
                let bytes = if life.is_partial() { self.sizes[position] } else { slot.size() };
                evicted.push(Evicted { position: position as u32, offset: slot.start(), bytes });
            }
        }
        evicted.sort_unstable_by_key(|evicted| evicted.offset);
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
    #[inline]
    fn fits(&self, bytes: u64) -> bool {
        bytes.wrapping_sub(self.least) <= self.spread
    }

    /// The position of this number serves a request that fits. Less than a unit is no part that could be given up.
    #[inline]
    fn serve(&self, position: usize, bytes: u64) -> Served {
        let is_whole = self.spread.wrapping_sub(bytes.wrapping_sub(self.least)) < ALIGN;
        Served { position: position as u32, offset: self.start(), is_whole }
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
