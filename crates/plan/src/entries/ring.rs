//! A ring: serves arrays that outlive their entry, by next fit in a circle of addresses.
//!
//! Arrays that are replaced entry by entry are dropped roughly in the order of their births. The ring's hand continues where the last
//! array ended. There it finds the arrays that were dropped longest ago, side by side, whatever their sizes. So n arrays that are
//! replaced one by one need n + 1 places, and arrays that grow a little each time need no extra places. The hand steps over arrays
//! that are dropped in another order, or never.
//!
//! If sizes repeat, the positions at which turns end decide how much memory is wasted there. [`turns`](Ring::turns) finds
//! them beforehand. [`circle`] keeps the slots.

mod circle;
#[cfg(test)]
mod tests;

use super::cursor::Evicted;
use super::envelope::ALIGN;
use circle::{Circle, NONE, State};

/// Slots in a circle of addresses.
#[derive(Debug)]
pub struct Ring {
    circle: Circle,
    /// The slot that was returned last.
    freed: u32,
    /// The number of births so far, in the ring or elsewhere.
    births: u64,
    /// The number of births at which this turn ends; [`NEVER`] if turns end where the ring's memory ends.
    turn_end: u64,
    returned: u64,
    /// Births that something else served.
    passed: u64,
    /// Births before this entry.
    before_entry: u64,
    /// The number of births in each turn, by the position at which it begins; empty if turns end where the ring's memory ends.
    turns: Vec<u32>,
    /// Whether all arrays have one size.
    are_alike: bool,
    /// Whether it has one region of fewer bytes than `target`.
    grows: bool,
    /// The ring grows up to this many bytes before the hand returns to the beginning.
    target: u64,
    /// The border of each contiguous stretch of addresses, and its bytes.
    regions: Vec<(u32, u64)>,
    /// Whether sizes grow, so that the end of a turn is the time to grow for the next one.
    looks_ahead: bool,
    end: TurnEnd,
}

/// The last end of a turn at which the ring looked ahead, if turns end where the memory ends.
#[derive(Clone, Copy, Debug, Default)]
struct TurnEnd {
    /// The births before it.
    births: u64,
    /// The live bytes of the last region.
    live: u64,
    /// The bytes that the next turn lacks, until the caller knows it.
    lacks: u64,
    /// The number of further turns that need no look, since the ring has enough for them.
    unseen: u64,
}

/// A number that births never reach.
const NEVER: u64 = u64::MAX;
/// Slots that the fast path steps over. Arrays that are dropped in the order of their births need at most one step.
const NEAR: usize = 8;
/// Slots that are stepped over before the ring grows: more than a model's state has arrays, and a few microseconds.
const FAR: usize = 4096;

/// The ring grows for a next turn with up to this share more live bytes. A ring that has just begun fills with whole arrays: that says nothing
/// about the next turn, and without a bound it asked for several times its bytes.
const MOST_GROWTH: u64 = 8;
/// A region is small if it has room for fewer arrays than this. The first blocks of a ring had room for one to three. The number was chosen, not
/// measured.
const SMALL: u64 = 4;

impl Default for Ring {
    fn default() -> Ring {
        Ring {
            circle: Circle::default(),
            freed: NONE,
            births: 0,
            turn_end: NEVER,
            returned: 0,
            passed: 0,
            before_entry: 0,
            turns: Vec::new(),
            are_alike: false,
            grows: false,
            target: 0,
            regions: Vec::new(),
            looks_ahead: false,
            end: TurnEnd::default(),
        }
    }
}

impl Ring {
    /// Bytes of all regions.
    pub fn bytes(&self) -> u64 {
        self.regions.iter().map(|&(_, bytes)| bytes).sum()
    }

    /// The number of regions.
    pub fn regions(&self) -> usize {
        self.regions.len()
    }

    /// How many slots are live.
    pub fn live(&self) -> u64 {
        self.served() - self.returned
    }

    /// How often a slot was served.
    pub fn served(&self) -> u64 {
        self.births - self.passed
    }

    /// Uses these turns from the next turn on. The ring grows up to `target` bytes for them. `are_alike` says whether all sizes are equal.
    pub fn follow(&mut self, turns: Vec<u32>, target: u64, are_alike: bool) {
        self.are_alike = are_alike;
        self.turn_end = if turns.is_empty() { NEVER } else { self.births };
        (self.turns, self.target) = (turns, target);
        self.note_growth();
    }

    /// Notes whether sizes grow from entry to entry. The ring then asks for memory at the end of a turn: see
    /// [`take_lack_of_turn`](Ring::take_lack_of_turn).
    pub fn look_ahead(&mut self, sizes_grow: bool) {
        self.looks_ahead = sizes_grow;
    }

    /// Begins an entry, whose first birth is that of position 0. If the ring is empty, the hand returns to the ring's beginning. So
    /// arrays that are all dropped between two entries, as a backward pass drops activations, need no more memory than their own.
    #[inline]
    pub fn begin(&mut self) {
        self.before_entry = self.births;
        if self.live() == 0 {
            self.rewind();
        }
    }

    fn rewind(&mut self) {
        self.end = TurnEnd::default();
        if let Some(&(border, _)) = self.regions.first() {
            self.circle.put_hand_behind(border);
        }
        if self.turn_end != NEVER {
            self.turn_end = self.births;
        }
    }

    /// Serves a slot of this many bytes and its address, if the hand finds one at once. This function makes no call.
    #[inline(always)]
    pub fn serve_here(&mut self, bytes: u64) -> Option<(u32, u64)> {
        if self.births == self.turn_end {
            return None;
        }
        let rounded = bytes.next_multiple_of(ALIGN);
        let served = match self.serve_freed(rounded) {
            Some(served) => served,
            None => self.circle.serve_here(rounded)?,
        };
        self.births += 1;
        Some(served)
    }

    /// Serves the slot that was returned last, without a search, if all arrays are alike. Arrays of several sizes lie in the order of their
    /// births instead. A slot that was served again at once left a gap at the hand: a training that replaces its moments reserved 1.15 times
    /// what was alive, and 1.01 to 1.02 now.
    #[inline(always)]
    fn serve_freed(&mut self, bytes: u64) -> Option<(u32, u64)> {
        if self.are_alike { self.circle.serve_slot(self.freed, bytes) } else { None }
    }

    /// Like [`serve_here`](Ring::serve_here), but steps over a few slots.
    pub fn serve(&mut self, bytes: u64) -> Option<(u32, u64)> {
        self.serve_within(bytes, NEAR)
    }

    /// Like [`serve_here`](Ring::serve_here), but searches the whole ring.
    pub fn serve_anywhere(&mut self, bytes: u64) -> Option<(u32, u64)> {
        self.serve_within(bytes, FAR.min(self.circle.round()))
    }

    fn serve_within(&mut self, bytes: u64, steps: usize) -> Option<(u32, u64)> {
        let rounded = bytes.checked_next_multiple_of(ALIGN)?;
        self.begin_birth();
        let served = self.serve_freed(rounded).or_else(|| self.circle.serve_now(rounded)).or_else(|| {
            let stops = self.grows || self.lacks_next_turn(rounded);
            self.circle.serve(rounded, steps, stops)
        })?;
        self.births += 1;
        Some(served)
    }

    /// Whether a turn ends here, and the next one will find too little memory, so that the ring should grow now.
    ///
    /// Where sizes grow, the free memory in front of the hand becomes less from birth to birth. Once it does not suffice, somewhere in the ring,
    /// the array goes to the end, and leaves a gap. Such gaps took a tenth of the ring of a cache that grows by a row for each token.
    fn lacks_next_turn(&mut self, bytes: u64) -> bool {
        if self.turn_end != NEVER || !self.looks_ahead {
            return false;
        }
        let Some(left) = self.regions.first().and_then(|&(border, _)| self.circle.free_before(border, bytes)) else {
            return false;
        };
        if self.end.births != self.births {
            if self.end.unseen > 0 {
                self.end.unseen -= 1;
                return false;
            }
            self.end_turn(bytes, left);
        }
        self.end.lacks > 0
    }

    /// Notes the end of a turn, with `left` free bytes behind it, and how much the next one lacks, whose arrays have `bytes` bytes or more.
    #[cold]
    fn end_turn(&mut self, bytes: u64, left: u64) {
        self.circle.let_go();
        let Some((&(border, last), others)) = self.regions.split_last() else { return };
        let (slots, live) = self.circle.count_live(border);
        let now = TurnEnd { births: self.births, live, lacks: 0, unseen: 0 };
        let before = std::mem::replace(&mut self.end, now);
        // A turn has as many births as there are live slots. A ring that has just begun grows by whole arrays.
        let births = (now.births - before.births).max(1);
        let growth = (live.saturating_sub(before.live).saturating_mul(slots) / births).min(live / MOST_GROWTH);
        // Once arrays are too large for a small region, this one has to serve them too. The next turn uses the free memory of large ones.
        let are_small = others.iter().all(|&(_, region)| region / SMALL < bytes);
        let moving: u64 = others.iter().map(|&(border, _)| self.circle.count_live(border).1).sum();
        // What is left at the end serves the next turn only if the ring grows.
        let free = (last - live).saturating_sub(left);
        let needed = bytes.saturating_add(growth).saturating_add(moving);
        if are_small && growth > 0 {
            self.end.lacks = needed.saturating_sub(free);
            // Half of them, as sizes may grow faster by then.
            self.end.unseen = free.saturating_sub(needed) / growth / 2;
        }
    }

    fn note_growth(&mut self) {
        self.grows = self.regions.len() == 1 && self.bytes() < self.target;
    }

    /// Notes a birth that something else serves.
    pub fn pass(&mut self) {
        self.begin_birth();
        self.passed += 1;
        self.births += 1;
    }

    /// Called before a birth: begins a turn if the last one has ended.
    fn begin_birth(&mut self) {
        if self.births != self.turn_end {
            return;
        }
        let position = (self.births - self.before_entry) as usize;
        self.turn_end = self.births + u64::from(self.turns[position % self.turns.len()]);
        if let Some(&(border, _)) = self.regions.first() {
            self.circle.put_hand_behind(border);
        }
    }

    /// Takes back a slot.
    #[inline(always)]
    pub fn take_back(&mut self, slot: u32) {
        if self.circle.take_back(slot) {
            self.returned += 1;
            self.freed = slot;
        }
    }

    /// Adds a region. The next array is served from it.
    pub fn add_region(&mut self, address: u64, bytes: u64) {
        let border = self.circle.add_border(address, self.regions.last().map(|&(last, _)| last));
        self.regions.push((border, 0));
        self.lengthen(self.regions.len() - 1, bytes);
    }

    /// How many bytes the end of the last region lacks to serve this many.
    pub fn lacks(&mut self, bytes: u64) -> u64 {
        let last = self.regions.last().map(|&(border, _)| self.circle.last(border));
        bytes.saturating_sub(last.filter(|last| last.state == State::Free).map_or(0, |last| last.bytes))
    }

    /// How many bytes the ring lacks for its next turn, if it still has room for the next array. The caller then lets it grow, if it can. The next
    /// array is served from the ring as it is then.
    pub fn take_lack_of_turn(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.end.lacks)).filter(|&lacks| lacks > 0)
    }

    /// Adds bytes at the end of a region. The next array is served from there.
    pub fn lengthen(&mut self, region: usize, more: u64) {
        let Some((border, bytes)) = self.regions.get_mut(region) else { return };
        self.circle.lengthen(*border, more);
        *bytes += more;
        self.note_growth();
    }

    /// Removes free memory from the end of the only region, but leaves the first `keep` bytes. Returns the bytes that are left, or `None`
    /// if none could be removed.
    pub fn shorten(&mut self, keep: u64) -> Option<u64> {
        let &[(border, bytes)] = self.regions.as_slice() else { return None };
        let last = self.circle.last(border);
        let before_last = bytes.saturating_sub(last.bytes);
        let left = before_last.max(keep.next_multiple_of(ALIGN));
        if last.state != State::Free || left >= bytes || left == 0 {
            return None;
        }
        self.circle.shorten_last(border, left - before_last);
        self.regions[0].1 = left;
        Some(left)
    }

    /// Takes all live slots out, in order of region and address. The ring then has no regions.
    pub fn evict(&mut self) -> Vec<Evicted> {
        let mut evicted = Vec::new();
        self.circle.let_go();
        for (piece, &(border, _)) in self.regions.iter().enumerate() {
            let live = self.circle.live(border);
            evicted.extend(live.map(|(position, offset, bytes)| Evicted { position, piece, offset, bytes }));
        }
        (self.circle, self.regions) = (Circle::default(), Vec::new());
        (self.returned, self.freed, self.grows, self.end) = (self.served(), NONE, false, TurnEnd::default());
        evicted
    }
}
