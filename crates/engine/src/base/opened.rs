//! Values that come one after the other and go in any order, as open entries of scopes do. No operation takes longer the more values
//! there are.

/// A list in order of arrival. Values lie in slots, which are linked to the next older and the next newer one; a slot that is free serves
/// the next value, so a list that was once as long takes no more memory.
#[derive(Debug)]
pub struct Opened<T> {
    slots: Vec<Slot<T>>,
    newest: usize,
    /// The first free slot; the others follow by `older`.
    free: usize,
}

#[derive(Debug)]
struct Slot<T> {
    /// `None` if the slot is free.
    value: Option<T>,
    older: usize,
    newer: usize,
}

/// No slot has this number.
const NONE: usize = usize::MAX;

impl<T> Default for Opened<T> {
    fn default() -> Opened<T> {
        Opened { slots: Vec::new(), newest: NONE, free: NONE }
    }
}

impl<T> Opened<T> {
    /// Adds the newest value. Returns its slot, which is 0 in an empty list that has just been made or cleared.
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

    /// Takes the value out of a slot; `None` if it has none.
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

    /// Removes all values, and keeps the memory of their slots.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        (self.newest, self.free) = (NONE, NONE);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.newest == NONE
    }

    #[inline]
    pub fn get(&self, place: usize) -> Option<&T> {
        self.slots.get(place)?.value.as_ref()
    }

    #[inline]
    pub fn newest(&self) -> Option<&T> {
        self.get(self.newest)
    }

    /// The slot of the value that came right after that of this one.
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
        /// Any order of arrivals and removals, next to a plain vector of slots and values.
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
