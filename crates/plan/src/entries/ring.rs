//! A ring: serves what outlives its entry, by next fit in a circle of addresses.
//!
//! What is replaced entry by entry is dropped about in the order in which it was born. So a hand that goes on where the last
//! array ended finds what was dropped longest ago, side by side, whatever the sizes: n arrays that are replaced one by
//! one need n + 1 places, and those that grow a little each time need no place of their own. What is dropped in another
//! order, or never, is stepped over.
//!
//! Where sizes repeat, the ends of the turns decide how much is wasted there: [`turns`](super::turns) finds them beforehand.
//! [`circle`] keeps the slots.

mod circle;
#[cfg(test)]
mod tests;

use super::cursor::Evicted;
use super::envelope::ALIGN;
use super::turns::Turns;
use circle::{Circle, NONE, State};

/// Slots in a circle of addresses.
#[derive(Debug)]
pub struct Ring {
    circle: Circle,
    /// The slot that came back last.
    freed: u32,
    /// What was born so far, here or elsewhere.
    births: u64,
    /// How many births there were when this turn ends; [`NEVER`] where turns end as it comes.
    turn_end: u64,
    returned: u64,
    /// Births elsewhere.
    passed: u64,
    /// Births before this entry.
    before_entry: u64,
    turns: Turns,
    /// Whether it has fewer bytes than `target`.
    grows: bool,
    /// The ring grows up to so many bytes before it begins anew at its end.
    target: u64,
    regions: Vec<Region>,
}

/// Addresses side by side.
#[derive(Clone, Copy, Debug)]
struct Region {
    border: u32,
    address: u64,
    bytes: u64,
}

/// More births than there are.
const NEVER: u64 = u64::MAX;
/// Slots that the fast way steps over. What is dropped in the order of its birth needs one step or none.
const NEAR: usize = 8;
/// Slots that are stepped over before the ring grows: more than arrays of a model's state, and a few microseconds.
const FAR: usize = 4096;

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
            turns: Turns::default(),
            grows: false,
            target: 0,
            regions: Vec::new(),
        }
    }
}

impl Ring {
    /// Bytes of all regions.
    pub fn bytes(&self) -> u64 {
        self.regions.iter().map(|region| region.bytes).sum()
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

    /// Goes by these turns from the next one on, and grows up to so many bytes for them.
    pub fn follow(&mut self, turns: Turns, target: u64) {
        self.turn_end = if turns.are_planned() { self.births } else { NEVER };
        (self.turns, self.target) = (turns, target);
        self.note_growth();
    }

    /// An entry begins: its first birth is that of position 0. What is born now lies from the ring's beginning on if nothing else is
    /// there, so that what is all dropped between two entries, as activations are by a backward pass, needs no more than itself.
    #[inline]
    pub fn begin(&mut self) {
        self.before_entry = self.births;
        if self.live() == 0 {
            self.rewind();
        }
    }

    fn rewind(&mut self) {
        if let Some(&Region { border, .. }) = self.regions.first() {
            self.circle.put_hand_behind(border);
        }
        if self.turn_end != NEVER {
            self.turn_end = self.births;
        }
    }

    /// A slot of so many bytes, and its address, if it is found at once. No call is made from here.
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

    /// What came back last, if it has as many bytes: where arrays are alike or are dropped in no order, that fits best, and needs
    /// no search. Planned turns lay one array beside the other.
    #[inline(always)]
    fn serve_freed(&mut self, bytes: u64) -> Option<(u32, u64)> {
        if self.turn_end == NEVER { self.circle.serve_slot(self.freed, bytes) } else { None }
    }

    /// As [`serve_here`](Ring::serve_here), if one of the next few will do.
    pub fn serve(&mut self, bytes: u64) -> Option<(u32, u64)> {
        self.serve_within(bytes, NEAR)
    }

    /// As [`serve_here`](Ring::serve_here), wherever there is one.
    pub fn serve_anywhere(&mut self, bytes: u64) -> Option<(u32, u64)> {
        self.serve_within(bytes, FAR.min(self.circle.round()))
    }

    fn serve_within(&mut self, bytes: u64, steps: usize) -> Option<(u32, u64)> {
        let rounded = bytes.checked_next_multiple_of(ALIGN)?;
        self.begin_birth();
        let served = self.serve_freed(rounded).or_else(|| self.circle.serve(rounded, steps, self.grows))?;
        self.births += 1;
        Some(served)
    }

    fn note_growth(&mut self) {
        self.grows = self.regions.len() == 1 && self.bytes() < self.target;
    }

    /// What is born next is served elsewhere.
    pub fn pass(&mut self) {
        self.begin_birth();
        self.passed += 1;
        self.births += 1;
    }

    /// Before a birth: begins a turn if the last one has ended.
    fn begin_birth(&mut self) {
        if self.births != self.turn_end {
            return;
        }
        let position = (self.births - self.before_entry) as usize;
        self.turn_end = self.births + self.turns.births_from(position);
        if let Some(&Region { border, .. }) = self.regions.first() {
            self.circle.put_hand_behind(border);
        }
    }

    /// A slot comes back.
    #[inline(always)]
    pub fn take_back(&mut self, slot: u32) {
        if self.circle.take_back(slot) {
            self.returned += 1;
            self.freed = slot;
        }
    }

    /// Adds a region, from which is served next.
    pub fn add_region(&mut self, address: u64, bytes: u64) {
        let border = self.circle.add_border(address, self.regions.last().map(|last| last.border));
        self.regions.push(Region { border, address, bytes: 0 });
        self.lengthen(self.regions.len() - 1, bytes);
    }

    /// How many bytes the last region lacks at its end to serve so many.
    pub fn lacks(&mut self, bytes: u64) -> u64 {
        let last = self.regions.last().map(|region| self.circle.last(region.border));
        bytes.saturating_sub(last.filter(|last| last.state == State::Free).map_or(0, |last| last.bytes))
    }

    /// Adds bytes at the end of a region, from which is served next.
    pub fn lengthen(&mut self, region: usize, more: u64) {
        let Region { border, address, bytes } = self.regions[region];
        self.circle.lengthen(border, address + bytes, more);
        self.regions[region].bytes += more;
        self.note_growth();
    }

    /// Takes what is free behind the first `keep` bytes off the end of the only region. Returns the bytes that are left, if
    /// any went.
    pub fn shorten(&mut self, keep: u64) -> Option<u64> {
        let &[Region { border, address, bytes }] = self.regions.as_slice() else { return None };
        let last = self.circle.last(border);
        let left = (last.address - address).max(keep.next_multiple_of(ALIGN));
        if last.state != State::Free || left >= bytes || left == 0 {
            return None;
        }
        self.circle.shorten_last(border, address + left - last.address);
        self.regions[0].bytes = left;
        Some(left)
    }

    /// Takes all that is live out, in order of region and address. There are no regions then.
    pub fn evict(&mut self) -> Vec<Evicted> {
        let mut evicted = Vec::new();
        self.circle.let_go();
        for (piece, &Region { border, address, .. }) in self.regions.iter().enumerate() {
            let live = self.circle.live(border);
            evicted.extend(live.map(|(position, slot)| Evicted {
                position,
                piece,
                offset: slot.address - address,
                bytes: slot.bytes,
            }));
        }
        (self.circle, self.regions) = (Circle::default(), Vec::new());
        (self.returned, self.freed, self.grows) = (self.served(), NONE, false);
        evicted
    }
}
