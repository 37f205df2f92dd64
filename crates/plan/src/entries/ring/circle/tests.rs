//! Lists the memory of a circle, for the tests of the ring.

use super::*;

impl Circle {
    /// The beginning and end of each slot and of the hand's memory, region by region, in the order of the circle from a border on.
    pub(in crate::entries::ring) fn stretches(&self, border: u32) -> Vec<Vec<(u64, u64)>> {
        let (mut regions, mut at) = (Vec::<Vec<(u64, u64)>>::new(), border);
        loop {
            let Slot { address, bytes, next, state } = self.slots[at as usize];
            assert_ne!(state, State::Spare, "a slot that was put away is in the circle");
            match regions.last_mut().filter(|_| state != State::Border) {
                Some(region) => region.push((address, address + bytes)),
                None => regions.push(Vec::new()),
            }
            let Hand { address, bytes, before, next: behind } = self.hand;
            let holds = before == at && bytes > 0;
            regions.last_mut().filter(|_| holds).into_iter().for_each(|region| region.push((address, address + bytes)));
            at = if holds { behind } else { next };
            if at == border {
                return regions;
            }
        }
    }
}
