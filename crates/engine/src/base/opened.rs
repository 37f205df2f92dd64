//! A list of values that arrive one after the other and leave in any order, as open entries of scopes do. The time of each operation does
//! not depend on the number of values.

/// A list in order of arrival. Values lie in slots, and each slot is linked to the next older and the next newer one. A new value takes a
/// free slot if there is one, so the list uses no more memory than at its greatest length.
#[derive(Debug)]
pub struct Opened<T> {
    slots: Vec<Slot<T>>,
    newest: usize,
    /// The first free slot. `older` of a free slot is the next free one.
    free: usize,
}

#[derive(Debug)]
struct Slot<T> {
    /// `None` if the slot is free.
    value: Option<T>,
    older: usize,
    newer: usize,
}

/// The number that stands for no slot.
const NONE: usize = usize::MAX;

impl<T> Default for Opened<T> {
    fn default() -> Opened<T> {
        Opened { slots: Vec::new(), newest: NONE, free: NONE }
    }
}

impl<T> Opened<T> {
    /// Adds the newest value and returns its slot. The slot is 0 if the list is new, or was just cleared.
    #[inline]
    pub fn push(&mut self, value: T) -> usize {
        let slot = Slot { value: Some(value), older: self.newest, newer: NONE };
        let place = match self.slots.get_mut(self.free) {
            Some(free) => {
                let place = std::mem::replace(&mut self.free, free.older);
                *free = slot;
                place
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        if let Some(before) = self.slots.get_mut(self.newest) {
            before.newer = place;
        }
        self.newest = place;
        place
    }

    /// Takes the value out of a slot. Returns `None` if the slot has none.
    #[inline]
    pub fn remove(&mut self, place: usize) -> Option<T> {
        let slot = self.slots.get_mut(place)?;
        let value = slot.value.take()?;
        let (older, newer) = (slot.older, slot.newer);
        (slot.older, self.free) = (self.free, place);
        if let Some(slot) = self.slots.get_mut(older) {
            slot.newer = newer;
        }
        match self.slots.get_mut(newer) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        Some(value)
    }

    /// Removes all values and keeps the memory of their slots.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        (self.newest, self.free) = (NONE, NONE);
    }

    pub fn is_empty(&self) -> bool {
        self.newest == NONE
    }

    #[inline]
    pub fn get(&self, place: usize) -> Option<&T> {
        self.slots.get(place)?.value.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        self.slots.get_mut(place)?.value.as_mut()
    }

    #[inline]
    pub fn newest(&self) -> Option<&T> {
        self.get(self.newest)
    }

    /// The slot of the newest value.
    pub fn newest_place(&self) -> Option<usize> {
        Some(self.newest).filter(|&newest| newest != NONE)
    }

    /// The slot of the value that arrived last before the value in `place`.
    pub fn before(&self, place: usize) -> Option<usize> {
        self.slots.get(place).map(|slot| slot.older).filter(|&older| older != NONE)
    }

    /// The slot of the value that arrived next after the value in `place`.
    #[inline]
    pub fn after(&self, place: usize) -> Option<usize> {
        self.slots.get(place).map(|slot| slot.newer).filter(|&newer| newer != NONE)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares any order of arrivals and removals with a plain vector of slots and values.
        #[test]
        fn it_is_a_list_in_order_of_arrival(steps in prop::collection::vec((any::<bool>(), 0..20usize), 1..200)) {
            let (mut opened, mut model) = (Opened::default(), Vec::<(usize, usize)>::new());
            for (number, (comes, which)) in steps.into_iter().enumerate() {
                if comes || model.is_empty() {
                    let place = opened.push(number);
                    prop_assert!(model.iter().all(|&(taken, _)| taken != place));
                    model.push((place, number));
                } else {
                    let (place, value) = model.remove(which % model.len());
                    prop_assert_eq!(opened.remove(place), Some(value));
                    prop_assert_eq!(opened.remove(place), None);
                }
                prop_assert_eq!(opened.newest().copied(), model.last().map(|&(_, value)| value));
                prop_assert_eq!(opened.is_empty(), model.is_empty());
                let after: Vec<_> = model.iter().map(|&(place, _)| opened.after(place)).collect();
                let expected: Vec<_> = model.iter().skip(1).map(|&(place, _)| Some(place)).chain([None]).collect();
                prop_assert_eq!(after, &expected[expected.len() - model.len()..]);
                prop_assert!(model.iter().all(|&(place, value)| opened.get(place) == Some(&value)));
                let before = std::iter::successors(opened.newest_place(), |&place| opened.before(place));
                prop_assert!(before.eq(model.iter().rev().map(|&(place, _)| place)));
            }
        }
    }

    #[test]
    fn free_slots_serve_again() {
        let mut opened = Opened::default();
        let places: Vec<usize> = (0..100).map(|value| opened.push(value)).collect();
        places.into_iter().for_each(|place| _ = opened.remove(place));
        (0..100).for_each(|value| _ = opened.push(value));
        assert_eq!(opened.slots.len(), 100);
        opened.clear();
        assert!(opened.is_empty() && opened.push(1) == 0);
    }
}
