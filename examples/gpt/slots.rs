//! Arrays of a step that are allocated once. The arrays of the first step serve all later steps, in the same order.
//!
//! This is how programs preallocate by hand. It serves as a comparison: it keeps all arrays of a step at once, also those that a step never
//! needs together.

use std::cell::{Cell, RefCell};

use crate::common::Result;

/// Values that a step takes one after the other.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    /// `None` while the step has it.
    values: RefCell<Vec<Option<T>>>,
    next: Cell<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { values: RefCell::default(), next: Cell::new(0) }
    }
}

impl<T> Slots<T> {
    /// The next step begins.
    pub(crate) fn rewind(&self) {
        self.next.set(0);
    }

    /// The next value of the step with its slot. The first step makes it.
    ///
    /// # Errors
    /// If the step takes other values than the first one.
    pub(crate) fn take(&self, fits: impl Fn(&T) -> bool, make: impl FnOnce() -> Result<T>) -> Result<(T, usize)> {
        let slot = self.next.replace(self.next.get() + 1);
        let mut values = self.values.borrow_mut();
        match values.get_mut(slot) {
            Some(value) => match value.take() {
                Some(value) if fits(&value) => Ok((value, slot)),
                _ => Err(format!("the step takes another array than before as number {slot}").into()),
            },
            None => {
                values.push(None);
                Ok((make()?, slot))
            }
        }
    }

    /// Takes a value back.
    pub(crate) fn put(&self, slot: usize, value: T) {
        if let Some(place) = self.values.borrow_mut().get_mut(slot) {
            *place = Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_steps_get_the_values_of_the_first() {
        let slots = Slots::default();
        for step in 0..3 {
            slots.rewind();
            let (first, place) = slots.take(|_| true, || Ok(10 + step)).unwrap();
            let (second, other) = slots.take(|value| *value == 20, || Ok(20 + step)).unwrap();
            assert_eq!((first, second), (10, 20));
            slots.put(other, second);
            slots.put(place, first);
        }
        slots.rewind();
        assert!(slots.take(|value| *value == 20, || Ok(0)).is_err(), "the first one is 10");
    }
}
