//! A ring: serves what outlives its entry, by next fit in a circle of addresses.
//!
//! What is replaced entry by entry is dropped about in the order in which it was born. So a search that goes on where the last
//! one ended finds what was dropped longest ago, merged to one stretch, whatever the sizes: n arrays that are replaced one by
//! one need n + 1 places, and those that grow a little each time need no place of their own. What is dropped in another
//! order, or never, is stepped over.
//!
//! Where sizes repeat, the ends of the turns decide how much is wasted there: [`turns`](super::turns) finds them beforehand.
//!
//! Invariants: slots are linked in a circle in order of address, region by region, each of which begins with a border; two free
//! slots are never neighbours; `head` is a slot of the circle. What is live is handed out to nobody, since only free slots are.

#[cfg(test)]
mod tests;

use super::cursor::Evicted;
use super::envelope::ALIGN;
use super::turns::Turns;

/// Slots in a circle of addresses.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Vec<Slot>,
    /// The first of the slots that are in no circle, linked by `next`; [`NONE`] if there is none.
    spare: u32,
    regions: Vec<Region>,
    /// Where the next search begins.
    head: u32,
    /// The free slot in which what came back last lies.
    freed: u32,
    served: u64,
    returned: u64,
    turns: Turns,
    /// The ring grows up to so many bytes before it begins anew at its end.
    target: u64,
    /// Whether it has fewer.
    grows: bool,
}

/// A stretch of addresses or the border before one.
///
/// Links to both sides lie apart: the compiler would load them at once, which takes long where one of them was just stored.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Slot {
    address: u64,
    prev: u32,
    state: State,
    bytes: u64,
    next: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Border,
    Free,
    Live,
}

/// Addresses side by side.
#[derive(Clone, Copy, Debug)]
struct Region {
    border: u32,
    address: u64,
    bytes: u64,
}

/// No slot.
const NONE: u32 = u32::MAX;
/// Slots that the fast way looks at. What is dropped in the order of its birth needs one or two looks.
const NEAR: usize = 8;
/// Slots that are looked at before the ring grows: more than arrays of a model's state, and a few microseconds.
const FAR: usize = 4096;

impl Default for Ring {
    fn default() -> Ring {
        let (slots, regions, turns) = (Vec::new(), Vec::new(), Turns::default());
        let (head, freed, served, returned, target, grows) = (0, 0, 0, 0, 0, false);
        Ring { slots, spare: NONE, regions, head, freed, served, returned, turns, target, grows }
    }
}

impl Ring {
    /// Bytes of all regions.
    pub(crate) fn bytes(&self) -> u64 {
        self.regions.iter().map(|region| region.bytes).sum()
    }

    pub(crate) fn regions(&self) -> usize {
        self.regions.len()
    }

    /// How many slots are live.
    pub(crate) fn live(&self) -> u64 {
        self.served - self.returned
    }

    /// How often a slot was served.
    pub(crate) fn served(&self) -> u64 {
        self.served
    }

    /// Goes by these turns from the next one on, and grows up to so many bytes for them.
    pub(crate) fn follow(&mut self, turns: Turns, target: u64) {
        (self.turns, self.target) = (turns, target);
        self.note_growth();
    }

    /// An entry begins.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.turns.begin();
    }

    /// A slot of so many bytes, and its address, if one of the next few will do.
    #[inline(always)]
    pub(crate) fn serve(&mut self, bytes: u64) -> Option<(u32, u64)> {
        let rounded = bytes.next_multiple_of(ALIGN);
        let found = if self.is_like_freed(rounded) { self.freed } else { self.find(rounded, NEAR)? };
        Some(self.hand_out(found, rounded))
    }

    /// Whether what came back last left a hole for one or two of so many bytes: where arrays are dropped in no order, that is found
    /// at once, and fits best.
    #[inline]
    fn is_like_freed(&self, bytes: u64) -> bool {
        if self.target > 0 {
            return false;
        }
        let freed = self.slots.get(self.freed as usize);
        freed.is_some_and(|slot| slot.state == State::Free && (slot.bytes == bytes || slot.bytes == 2 * bytes))
    }

    /// As [`serve`](Ring::serve), wherever there is one.
    pub(crate) fn serve_anywhere(&mut self, bytes: u64) -> Option<(u32, u64)> {
        let rounded = bytes.checked_next_multiple_of(ALIGN)?;
        let found = self.find(rounded, FAR)?;
        Some(self.hand_out(found, rounded))
    }

    fn note_growth(&mut self) {
        self.grows = self.regions.len() == 1 && self.bytes() < self.target;
    }

    /// What is born next is served elsewhere.
    pub(crate) fn pass(&mut self) {
        self.count_birth();
    }

    #[inline(always)]
    fn find(&self, bytes: u64, looks: usize) -> Option<u32> {
        let mut at = self.head;
        for look in 0..looks {
            if look > 0 && at == self.head {
                return None;
            }
            let slot = self.slots.get(at as usize)?;
            match slot.state {
                State::Free if slot.bytes >= bytes => return Some(at),
                // It is to grow here, unless a turn has just begun.
                State::Border if look > 0 && self.grows => return None,
                _ => at = slot.next,
            }
        }
        None
    }

    #[inline(always)]
    fn hand_out(&mut self, free: u32, bytes: u64) -> (u32, u64) {
        let slot = &mut self.slots[free as usize];
        let address = slot.address;
        self.served += 1;
        let taken = if slot.bytes == bytes {
            slot.state = State::Live;
            self.head = slot.next;
            free
        } else {
            slot.address += bytes;
            slot.bytes -= bytes;
            self.head = free;
            let prev = slot.prev;
            self.insert(Slot { address, bytes, prev, next: free, state: State::Live })
        };
        self.count_birth();
        (taken, address)
    }

    /// Begins the next turn if one ends here.
    #[inline]
    fn count_birth(&mut self) {
        if self.turns.count() {
            self.head = self.regions.first().map_or(self.head, |region| region.border);
        }
    }

    /// A slot comes back.
    #[inline]
    pub(crate) fn take_back(&mut self, slot: u32) {
        let Some(&Slot { prev, next, state: State::Live, .. }) = self.slots.get(slot as usize) else { return };
        self.slots[slot as usize].state = State::Free;
        self.returned += 1;
        self.freed = slot;
        if self.is_free(next) {
            self.merge(slot, next);
        }
        if self.is_free(prev) {
            self.merge(prev, slot);
            self.freed = prev;
        }
    }

    #[inline]
    fn is_free(&self, slot: u32) -> bool {
        self.slots[slot as usize].state == State::Free
    }

    /// Adds a free slot to the one before it.
    #[inline]
    fn merge(&mut self, left: u32, right: u32) {
        let Slot { bytes, .. } = self.slots[right as usize];
        self.slots[left as usize].bytes += bytes;
        self.remove(right);
        if self.head == right {
            self.head = left;
        }
    }

    /// Puts a slot between two neighbours. Field by field, as a copy of all of it would wait for the stores of its parts.
    #[inline(always)]
    fn insert(&mut self, slot: Slot) -> u32 {
        let place = self.spare;
        let Some(known) = self.slots.get_mut(place as usize) else { return self.push(slot) };
        self.spare = known.next;
        (known.address, known.bytes, known.state) = (slot.address, slot.bytes, slot.state);
        (known.prev, known.next) = (slot.prev, slot.next);
        self.slots[slot.prev as usize].next = place;
        self.slots[slot.next as usize].prev = place;
        place
    }

    #[cold]
    fn push(&mut self, slot: Slot) -> u32 {
        let place = self.slots.len() as u32;
        self.slots.push(slot);
        self.slots[slot.prev as usize].next = place;
        self.slots[slot.next as usize].prev = place;
        place
    }

    #[inline]
    fn remove(&mut self, slot: u32) {
        let Slot { prev, next, .. } = self.slots[slot as usize];
        self.slots[prev as usize].next = next;
        self.slots[next as usize].prev = prev;
        self.slots[slot as usize].next = self.spare;
        self.spare = slot;
    }

    /// Adds a region, from which is served next.
    pub(crate) fn add_region(&mut self, address: u64, bytes: u64) {
        let border = Slot { address, bytes: 0, prev: 0, next: 0, state: State::Border };
        let border = match self.regions.first() {
            None => {
                self.slots.push(border);
                self.slots.len() as u32 - 1
            }
            Some(&Region { border: first, .. }) => {
                let last = self.slots[first as usize].prev;
                self.insert(Slot { prev: last, next: first, ..border })
            }
        };
        self.regions.push(Region { border, address, bytes: 0 });
        self.lengthen(self.regions.len() - 1, bytes);
    }

    /// How many bytes the last region lacks at its end to serve so many.
    pub(crate) fn lacks(&self, bytes: u64) -> u64 {
        let last = self.regions.first().map(|first| self.slots[self.slots[first.border as usize].prev as usize]);
        let free = last.filter(|last| last.state == State::Free).map_or(0, |last| last.bytes);
        bytes.saturating_sub(free)
    }

    /// Adds bytes at the end of a region, from which is served next.
    pub(crate) fn lengthen(&mut self, region: usize, more: u64) {
        let Region { border, address, bytes } = self.regions[region];
        let next = self.regions.get(region + 1).or(self.regions.first()).map_or(border, |region| region.border);
        let last = self.slots[next as usize].prev;
        self.regions[region].bytes += more;
        self.head = if self.is_free(last) {
            self.slots[last as usize].bytes += more;
            last
        } else {
            let end = Slot { address: address + bytes, bytes: more, prev: last, next, state: State::Free };
            self.insert(end)
        };
        self.note_growth();
    }

    /// Takes what is free behind the first `keep` bytes off the end of the only region. Returns the bytes that are left, if
    /// any went.
    pub(crate) fn shorten(&mut self, keep: u64) -> Option<u64> {
        let &[Region { border, address, bytes }] = self.regions.as_slice() else { return None };
        let last = self.slots[border as usize].prev;
        let Slot { address: begin, state, .. } = self.slots[last as usize];
        let left = (begin - address).max(keep.next_multiple_of(ALIGN));
        if state != State::Free || left >= bytes || left == 0 {
            return None;
        }
        self.regions[0].bytes = left;
        self.slots[last as usize].bytes = address + left - begin;
        if address + left == begin {
            if self.head == last {
                self.head = border;
            }
            self.remove(last);
        }
        Some(left)
    }

    /// Takes all that is live out, in order of region and address. There are no regions then.
    pub(crate) fn evict(&mut self) -> Vec<Evicted> {
        let mut evicted = Vec::new();
        for (piece, &Region { border, address, .. }) in self.regions.iter().enumerate() {
            let mut at = self.slots[border as usize].next;
            while self.slots[at as usize].state != State::Border {
                let slot = self.slots[at as usize];
                if slot.state == State::Live {
                    evicted.push(Evicted { position: at, piece, offset: slot.address - address, bytes: slot.bytes });
                }
                at = slot.next;
            }
        }
        let Ring { served, target, .. } = *self;
        *self = Ring { served, returned: served, target, turns: std::mem::take(&mut self.turns), ..Ring::default() };
        evicted
    }
}
