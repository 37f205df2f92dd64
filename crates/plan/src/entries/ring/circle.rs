//! A circle of slots, and the hand that goes round it.
//!
//! A drop is a mark, and free neighbours are merged only where the hand needs more than one of them holds: sizes that repeat
//! find the places of the turn before as they were, which are neither merged nor split then. What is free right before the hand
//! waits until that comes round again.
//!
//! Invariants: slots are linked in a circle in order of address, region by region, each of which begins with a border. They and
//! what the hand holds take up the regions wholly and overlap nowhere. The hand is between two slots of the circle, and what it
//! holds lies between them. What is live is handed out to nobody: only what is free is, and what the hand holds was that.

#[cfg(test)]
mod tests;

/// Slots in a circle of addresses, with a hand between two of them.
#[derive(Debug)]
pub(super) struct Circle {
    slots: Vec<Slot>,
    hand: Hand,
    /// The first of the slots that are in no circle, linked by `next`; [`NONE`] if there is none.
    spare: u32,
}

/// A stretch of addresses or the border before one.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Slot {
    pub(super) address: u64,
    pub(super) bytes: u64,
    next: u32,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Border,
    Free,
    Live,
    /// In no circle.
    Spare,
}

/// Where is served next: between two slots, with what is free between them, which is no slot meanwhile.
#[derive(Clone, Copy, Debug)]
struct Hand {
    /// The addresses that it holds. While it holds any, the slot before it may still be linked to one that these were.
    address: u64,
    bytes: u64,
    /// The slots on both sides.
    before: u32,
    next: u32,
}

/// The last slot of a region, and the one before that.
#[derive(Clone, Copy, Debug)]
struct End {
    before: u32,
    last: u32,
}

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

impl Default for Circle {
    fn default() -> Circle {
        Circle { slots: Vec::new(), hand: Hand { address: 0, bytes: 0, before: NONE, next: NONE }, spare: NONE }
    }
}

impl Circle {
    /// How many steps lead round it, at most.
    pub(super) fn round(&self) -> usize {
        self.slots.len()
    }

    /// Serves this slot as it is, if it is free and has just so many bytes.
    #[inline(always)]
    pub(super) fn serve_slot(&mut self, slot: u32, bytes: u64) -> Option<(u32, u64)> {
        let found = self.slots.get_mut(slot as usize)?;
        if found.state != State::Free || found.bytes != bytes {
            return None;
        }
        found.state = State::Live;
        Some((slot, found.address))
    }

    /// Serves so many bytes, above 0, if there are as many between the hand and what is live behind it, and a slot for them. No call
    /// is made from here.
    #[inline(always)]
    pub(super) fn serve_here(&mut self, bytes: u64) -> Option<(u32, u64)> {
        if self.hand.bytes < bytes { self.serve_with_next(bytes) } else { self.carve(bytes) }
    }

    /// As [`serve_here`](Circle::serve_here), and steps over so many slots at most to find them. If it `stops`, no step leads over the
    /// end of a region.
    pub(super) fn serve(&mut self, bytes: u64, steps: usize, stops: bool) -> Option<(u32, u64)> {
        if self.spare == NONE {
            self.add_spare();
        }
        for _ in 0..=steps {
            if let Some(served) = self.serve_here(bytes) {
                return Some(served);
            }
            if stops && self.slots.get(self.hand.next as usize)?.state == State::Border {
                return None;
            }
            self.step();
        }
        None
    }

    /// Serves what the hand holds and as much of the next slots as it takes, if those are free: as the last of them, which stays
    /// where it is in the circle. Where sizes repeat that is the first one, all of it.
    #[inline(always)]
    fn serve_with_next(&mut self, bytes: u64) -> Option<(u32, u64)> {
        loop {
            let Hand { bytes: held, before, next: place, .. } = self.hand;
            let next = self.slots.get_mut(place as usize).filter(|next| next.state == State::Free)?;
            let (address, all, behind) = (next.address - held, held + next.bytes, next.next);
            if all >= bytes {
                (next.address, next.bytes, next.state) = (address, bytes, State::Live);
                self.hand = Hand { address: address + bytes, bytes: all - bytes, before: place, next: behind };
                self.link(before, place);
                return Some((place, address));
            }
            // The hand holds it too.
            (next.next, next.state, self.spare) = (self.spare, State::Spare, place);
            (self.hand.address, self.hand.bytes, self.hand.next) = (address, all, behind);
        }
    }

    /// Links a slot to the next one.
    #[inline(always)]
    fn link(&mut self, slot: u32, next: u32) {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            slot.next = next;
        }
    }

    /// Serves the first bytes of what the hand holds, if there is a spare slot for them.
    #[inline(always)]
    fn carve(&mut self, bytes: u64) -> Option<(u32, u64)> {
        let Hand { address, before, next, .. } = self.hand;
        let place = self.spare;
        let spare = self.slots.get_mut(place as usize)?;
        self.spare = spare.next;
        (spare.address, spare.bytes, spare.next, spare.state) = (address, bytes, next, State::Live);
        self.link(before, place);
        (self.hand.address, self.hand.bytes) = (address + bytes, self.hand.bytes - bytes);
        self.hand.before = place;
        Some((place, address))
    }

    /// A slot comes back. Returns whether it was live.
    #[inline(always)]
    pub(super) fn take_back(&mut self, slot: u32) -> bool {
        let Some(slot) = self.slots.get_mut(slot as usize).filter(|slot| slot.state == State::Live) else {
            return false;
        };
        slot.state = State::Free;
        true
    }

    /// Steps over the next slot.
    fn step(&mut self) {
        if (self.hand.next as usize) < self.slots.len() {
            self.put_hand_behind(self.hand.next);
        }
    }

    /// Serves behind this slot from now on. What the hand holds is a slot again.
    pub(super) fn put_hand_behind(&mut self, slot: u32) {
        self.let_go();
        (self.hand.before, self.hand.next) = (slot, self.slots[slot as usize].next);
    }

    /// What the hand holds is a slot again, and the hand in front of it.
    pub(super) fn let_go(&mut self) {
        let Hand { address, bytes, before, next } = self.hand;
        if bytes > 0 {
            let place = self.place(Slot { address, bytes, next, state: State::Free });
            self.slots[before as usize].next = place;
            (self.hand.bytes, self.hand.next) = (0, place);
        }
    }

    /// A place for a slot, which the one before it is not linked to yet.
    fn place(&mut self, slot: Slot) -> u32 {
        if self.spare == NONE {
            self.add_spare();
        }
        let place = self.spare;
        self.spare = self.slots[place as usize].next;
        self.slots[place as usize] = slot;
        place
    }

    #[cold]
    fn add_spare(&mut self) {
        self.spare = self.slots.len() as u32;
        self.slots.push(Slot { address: 0, bytes: 0, next: NONE, state: State::Spare });
    }

    /// Keeps a slot that has left the circle for the next one.
    #[inline]
    fn put_away(&mut self, slot: u32) {
        let spare = &mut self.slots[slot as usize];
        (spare.state, spare.next) = (State::Spare, self.spare);
        self.spare = slot;
    }

    /// Adds the border of a region of no bytes, the first one or behind the region with the border `last`, and returns it.
    pub(super) fn add_border(&mut self, address: u64, last: Option<u32>) -> u32 {
        let border = Slot { address, bytes: 0, next: 0, state: State::Border };
        let Some(last) = last else {
            // It is linked to itself.
            let place = self.place(border);
            self.slots[place as usize].next = place;
            self.put_hand_behind(place);
            return place;
        };
        let end = self.merged(last).last;
        let place = self.place(Slot { next: self.slots[end as usize].next, ..border });
        self.slots[end as usize].next = place;
        self.put_hand_behind(place);
        place
    }

    /// Merges what is free side by side in the region behind a border, and returns its end. The hand holds nothing then.
    fn merged(&mut self, border: u32) -> End {
        self.let_go();
        let (mut before, mut last) = (border, border);
        loop {
            let Slot { state, next, .. } = self.slots[last as usize];
            let Slot { state: next_state, bytes, next: behind, .. } = self.slots[next as usize];
            match (state, next_state) {
                (_, State::Border) => return End { before, last },
                (State::Free, State::Free) => {
                    self.slots[last as usize].bytes += bytes;
                    self.unlink(last, next, behind);
                    if self.hand.before == last {
                        self.put_hand_behind(before);
                    }
                }
                _ => (before, last) = (last, next),
            }
        }
    }

    /// Takes a slot out of the circle, between these two. Where the hand was beside it, it goes on behind the first of them.
    fn unlink(&mut self, before: u32, slot: u32, behind: u32) {
        self.slots[before as usize].next = behind;
        if self.hand.before == slot || self.hand.next == slot {
            self.put_hand_behind(before);
        }
        self.put_away(slot);
    }

    /// The last slot of the region behind a border.
    pub(super) fn last(&mut self, border: u32) -> Slot {
        let End { last, .. } = self.merged(border);
        self.slots[last as usize]
    }

    /// Adds bytes from this address on at the end of the region behind a border, from which is served next.
    pub(super) fn lengthen(&mut self, border: u32, address: u64, bytes: u64) {
        let End { before, last } = self.merged(border);
        let Slot { state, next, .. } = self.slots[last as usize];
        if state == State::Free {
            self.slots[last as usize].bytes += bytes;
            return self.put_hand_behind(before);
        }
        let place = self.place(Slot { address, bytes, next, state: State::Free });
        self.slots[last as usize].next = place;
        self.put_hand_behind(last);
    }

    /// Leaves so many bytes of the last slot of the region behind a border, which is free.
    pub(super) fn shorten_last(&mut self, border: u32, left: u64) {
        let End { before, last } = self.merged(border);
        self.slots[last as usize].bytes = left;
        if left == 0 {
            self.unlink(before, last, self.slots[last as usize].next);
        }
    }

    /// What is live in the region behind a border, in order of address: the slots with their numbers.
    pub(super) fn live(&self, border: u32) -> impl Iterator<Item = (u32, Slot)> + '_ {
        let next = |&(_, slot): &(u32, Slot)| Some((slot.next, self.slots[slot.next as usize]));
        let slots = std::iter::successors(Some((border, self.slots[border as usize])), next).skip(1);
        slots.take_while(|(_, slot)| slot.state != State::Border).filter(|(_, slot)| slot.state == State::Live)
    }
}
