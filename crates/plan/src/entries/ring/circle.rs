//! A circle of slots, and the hand that goes round it.
//!
//! A drop only marks a slot. Free neighbours are merged only if the hand needs more memory than one of them has. So arrays of repeating
//! sizes find the slots of the turn before unchanged, and nothing is merged or split. A slot that becomes free right before the hand
//! waits for the hand's next round.
//!
//! Invariants: slots are linked in a circle in order of address, region by region. Each region begins with a border. The slots and
//! the memory that the hand holds fill the regions completely and overlap nowhere. The hand is between two slots of the circle, and
//! the memory that it holds lies between them. Only free slots and memory that the hand holds (which was free) are handed out, so
//! live memory never is.

#[cfg(test)]
mod tests;

/// Slots in a circle of addresses, with a hand between two of them.
#[derive(Debug)]
pub(super) struct Circle {
    slots: Vec<Slot>,
    hand: Hand,
    /// The first of the slots that are in no circle, linked by `next`; [`NONE`] if there are none.
    spare: u32,
}

/// A stretch of addresses, or the border in front of a region.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Slot {
    address: u64,
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

/// The place that is served next: between two slots, with the free memory between them, which belongs to no slot meanwhile.
#[derive(Clone, Copy, Debug)]
struct Hand {
    /// The first address that it holds. While it holds any, the slot before it may still be linked to a slot that had these bytes.
    address: u64,
    bytes: u64,
    /// The slots before and behind the hand.
    before: u32,
    next: u32,
}

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

impl Default for Circle {
    fn default() -> Circle {
        Circle { slots: Vec::new(), hand: Hand { address: 0, bytes: 0, before: NONE, next: NONE }, spare: NONE }
    }
}

impl Circle {
    /// The largest number of steps that lead once round the circle.
    pub(super) fn round(&self) -> usize {
        self.slots.len()
    }

    /// Serves this slot unchanged, if it is free and has exactly this many bytes.
    #[inline(always)]
    pub(super) fn serve_slot(&mut self, slot: u32, bytes: u64) -> Option<(u32, u64)> {
        let found = self.slots.get_mut(slot as usize)?;
        if found.state != State::Free || found.bytes != bytes {
            return None;
        }
        found.state = State::Live;
        Some((slot, found.address))
    }

    /// Serves this many bytes, above 0, if as many are free between the hand and the next live slot, and there is a slot for them. This
    /// function makes no call.
    #[inline(always)]
    pub(super) fn serve_here(&mut self, bytes: u64) -> Option<(u32, u64)> {
        if self.hand.bytes < bytes { self.serve_with_next(bytes) } else { self.carve(bytes) }
    }

    /// Like [`serve_here`](Circle::serve_here), also if there is no slot yet.
    #[inline]
    pub(super) fn serve_now(&mut self, bytes: u64) -> Option<(u32, u64)> {
        if self.spare == NONE {
            self.add_spare();
        }
        self.serve_here(bytes)
    }

    /// Like [`serve_now`](Circle::serve_now), after a call of it that found nothing, but steps over up to `steps` slots. If it `stops`, no step
    /// leads past the end of a region.
    pub(super) fn serve(&mut self, bytes: u64, steps: usize, stops: bool) -> Option<(u32, u64)> {
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

    /// Serves the memory that the hand holds and as many of the next slots as necessary, if those are free. The last of these slots
    /// becomes the array's and keeps its place in the circle. If sizes repeat, it is the first slot, with all of its bytes.
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
            // The slot is too small, so the hand takes its bytes.
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

    /// Serves the first bytes that the hand holds, if there is a spare slot for them.
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

    /// Takes back a slot. Returns whether it was live.
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

    /// Moves the hand behind this slot. The memory that it held becomes a slot again.
    pub(super) fn put_hand_behind(&mut self, slot: u32) {
        self.let_go();
        (self.hand.before, self.hand.next) = (slot, self.slots[slot as usize].next);
    }

    /// Makes the memory that the hand holds a slot again, with the hand in front of it.
    pub(super) fn let_go(&mut self) {
        let Hand { address, bytes, before, next } = self.hand;
        if bytes > 0 {
            let place = self.place(Slot { address, bytes, next, state: State::Free });
            self.slots[before as usize].next = place;
            (self.hand.bytes, self.hand.next) = (0, place);
        }
    }

    /// Stores a slot and returns its number. The slot before it is not linked to it yet.
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

    /// Keeps a slot that has left the circle for later use.
    #[inline]
    fn put_away(&mut self, slot: u32) {
        let spare = &mut self.slots[slot as usize];
        (spare.state, spare.next) = (State::Spare, self.spare);
        self.spare = slot;
    }

    /// Adds the border of a region of no bytes and returns it. The region is the first one, or comes behind that with the border `last`.
    pub(super) fn add_border(&mut self, address: u64, last: Option<u32>) -> u32 {
        let border = Slot { address, bytes: 0, next: 0, state: State::Border };
        let Some(last) = last else {
            // The only slot is linked to itself.
            let place = self.place(border);
            self.slots[place as usize].next = place;
            self.put_hand_behind(place);
            return place;
        };
        let end = self.merged(last).1;
        let place = self.place(Slot { next: self.slots[end as usize].next, ..border });
        self.slots[end as usize].next = place;
        self.put_hand_behind(place);
        place
    }

    /// Merges free neighbours in the region behind a border. Returns its last slot, and before it the slot before that. The hand then holds
    /// nothing.
    fn merged(&mut self, border: u32) -> (u32, u32) {
        self.let_go();
        let (mut before, mut last) = (border, border);
        loop {
            let Slot { state, next, .. } = self.slots[last as usize];
            let Slot { state: next_state, bytes, next: behind, .. } = self.slots[next as usize];
            match (state, next_state) {
                (_, State::Border) => return (before, last),
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

    /// Takes a slot out of the circle, between these two. If the hand was beside the slot, it moves behind `before`.
    fn unlink(&mut self, before: u32, slot: u32, behind: u32) {
        self.slots[before as usize].next = behind;
        if self.hand.before == slot || self.hand.next == slot {
            self.put_hand_behind(before);
        }
        self.put_away(slot);
    }

    /// The last slot of the region behind a border.
    pub(super) fn last(&mut self, border: u32) -> Slot {
        let (_, last) = self.merged(border);
        self.slots[last as usize]
    }

    /// Adds bytes to the end of the region behind a border. They are served next.
    pub(super) fn lengthen(&mut self, border: u32, bytes: u64) {
        let (before, last) = self.merged(border);
        let Slot { address, bytes: last_bytes, state, next } = self.slots[last as usize];
        if state == State::Free {
            self.slots[last as usize].bytes += bytes;
            return self.put_hand_behind(before);
        }
        let place = self.place(Slot { address: address + last_bytes, bytes, next, state: State::Free });
        self.slots[last as usize].next = place;
        self.put_hand_behind(last);
    }

    /// Cuts the last slot of the region behind a border, which is free, to this many bytes.
    pub(super) fn shorten_last(&mut self, border: u32, left: u64) {
        let (before, last) = self.merged(border);
        self.slots[last as usize].bytes = left;
        if left == 0 {
            self.unlink(before, last, self.slots[last as usize].next);
        }
    }

    /// The free bytes between the hand and this border, if nothing else lies there, and they are fewer than `bytes`.
    pub(super) fn free_before(&self, border: u32, bytes: u64) -> Option<u64> {
        let (mut free, mut next) = (self.hand.bytes, self.hand.next);
        while free < bytes
            && let Some(slot) = self.slots.get(next as usize).filter(|slot| slot.state == State::Free)
        {
            (free, next) = (free + slot.bytes, slot.next);
        }
        (free < bytes && next == border).then_some(free)
    }

    /// How many live slots the region behind a border has, and their bytes.
    pub(super) fn count_live(&self, border: u32) -> (u64, u64) {
        self.live(border).fold((0, 0), |(slots, all), (_, _, bytes)| (slots + 1, all + bytes))
    }

    /// The live slots of the region behind a border, in order of address: the number, the offset in the region, and the bytes of each.
    pub(super) fn live(&self, border: u32) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        let start = self.slots[border as usize].address;
        let next = |&(_, slot): &(u32, Slot)| Some((slot.next, self.slots[slot.next as usize]));
        let slots = std::iter::successors(Some((border, self.slots[border as usize])), next).skip(1);
        let live =
            slots.take_while(|(_, slot)| slot.state != State::Border).filter(|(_, slot)| slot.state == State::Live);
        live.map(move |(number, slot)| (number, slot.address - start, slot.bytes))
    }
}
