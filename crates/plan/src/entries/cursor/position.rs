//! A position of a plan: the requests that it serves, its place, and whether it is live.

use super::Served;
use crate::entries::envelope::ALIGN;
#[cfg(doc)]
use crate::entries::reuse::FirstReusers;

/// A position of the plan. It is small, so that the positions of a step stay in the processor's cache.
#[derive(Clone, Debug)]
pub(super) struct Position {
    /// The position serves from `least` to `least + spread` bytes. No request fits a position that is not planned.
    pub(super) least: u64,
    pub(super) spread: u64,
    /// The positions whose first reuser is this one: none of them may be live. [`never_live`](FirstReusers::never_live) fills an
    /// empty field. [`always_live`](FirstReusers::always_live) stands for displaced positions that this one is the reuser of, or for
    /// the third and later positions.
    pub(super) before: [u32; 2],
    /// In units of [`ALIGN`].
    pub(super) offset: u32,
    /// The number of displaced positions whose reuser is this one.
    pub(super) blockers: u32,
}

/// A position that is not live. The life of a position is one byte, so that the lives of a long entry stay in the processor's first-level cache.
pub(super) const IDLE: u8 = 0;
/// The array takes its whole place, and the position's reuser is its first one.
pub(super) const WHOLE: u8 = 1;
/// This bit of a live position says that the array takes less than its place: `sizes` has its bytes.
pub(super) const PARTIAL: u8 = 2;
/// This bit of a live position says that it has another reuser than its first one.
pub(super) const DISPLACED: u8 = 4;
/// The lives of two extra positions behind a plan's own: [`never_live`](FirstReusers::never_live), then
/// [`always_live`](FirstReusers::always_live). They let the check for blockers treat none, some and many alike.
pub(super) const SENTINELS: [u8; 2] = [IDLE, WHOLE];
/// The offset of a position without a place. No real offset is as large, because a plan's block is at most half as long.
pub(super) const NOWHERE: u32 = u32::MAX;
/// The offset of a position that a ring carries.
pub(super) const CARRIED: u32 = NOWHERE - 1;
/// The bytes of a position that serves nothing: more than any array has.
pub(super) const UNASKED: u64 = u64::MAX;

impl Position {
    #[inline]
    pub(super) fn fits(&self, bytes: u64) -> bool {
        bytes.wrapping_sub(self.least) <= self.spread
    }

    /// Serves a request that fits, as the position of this number. A rest of less than one unit cannot be given up separately.
    #[inline]
    pub(super) fn serve(&self, number: usize, bytes: u64) -> Served {
        let is_whole = self.spread.wrapping_sub(bytes.wrapping_sub(self.least)) < ALIGN;
        Served { position: number as u32, offset: self.start(), is_whole }
    }

    pub(super) fn is_carried(&self) -> bool {
        self.offset == CARRIED
    }

    pub(super) fn is_planned(&self) -> bool {
        self.offset < CARRIED
    }

    /// Its first address, as bytes from the start of the plan's block.
    #[inline]
    pub(super) fn start(&self) -> u64 {
        u64::from(self.offset) * ALIGN
    }

    /// The bytes of its place: the size of the largest request that it serves.
    pub(super) fn size(&self) -> u64 {
        self.least.wrapping_add(self.spread)
    }

    pub(super) fn overlaps(&self, other: &Position) -> bool {
        let are_planned = self.is_planned() && other.is_planned();
        are_planned && self.start() < other.start() + other.size() && other.start() < self.start() + self.size()
    }

    /// Lets the position serve requests down to this many bytes.
    pub(super) fn lower_least(&mut self, bytes: u64) {
        if self.is_planned() && (1..self.least).contains(&bytes) {
            self.spread += self.least - bytes;
            self.least = bytes;
        }
    }
}
