//! The free extents of a room: best fit among the first of them.

use crate::entries::envelope::ALIGN;

/// The bytes of a room that are free, up to its capacity.
#[derive(Clone, Debug)]
pub(in crate::entries) struct Extents {
    /// Free extents by address, as start and end. Two of them never touch.
    free: Vec<(u64, u64)>,
    capacity: u64,
    /// The end of the highest extent that was ever taken.
    high: u64,
    taken: u64,
}

/// The extents that a request looks at. With many more, fragments of a room would take longer to look at than the range does.
const LOOKS: usize = 64;

impl Default for Extents {
    /// A room without a limit.
    fn default() -> Extents {
        Extents::new(u64::MAX - ALIGN)
    }
}

impl Extents {
    pub(super) fn new(capacity: u64) -> Extents {
        Extents { free: vec![(0, capacity)], capacity, high: 0, taken: 0 }
    }

    /// Takes an extent for so many bytes; returns its offset. The smallest of the first free extents that are large enough; the one up to the
    /// capacity only if no other is. So a room that is as high as a room without a limit was holds the same arrays.
    pub(in crate::entries) fn take(&mut self, bytes: u64) -> Option<u64> {
        let bytes = bytes.checked_next_multiple_of(ALIGN)?;
        // The last extent is the largest one as a rule, and would else be out of sight.
        let last = self.free.len().checked_sub(1)?;
        let looked = (0..last.min(LOOKS)).chain([last]);
        let size = |place: usize| self.free[place].1 - self.free[place].0;
        let fits = looked.filter(|&place| size(place) >= bytes);
        let place = fits.min_by_key(|&place| (self.free[place].1 == self.capacity, size(place)))?;
        let (start, end) = self.free[place];
        match start + bytes == end {
            true => _ = self.free.remove(place),
            false => self.free[place].0 = start + bytes,
        }
        self.high = self.high.max(start + bytes);
        self.taken += bytes;
        Some(start)
    }

    /// Frees an extent that was taken for so many bytes.
    pub(in crate::entries) fn free(&mut self, offset: u64, bytes: u64) {
        let bytes = bytes.next_multiple_of(ALIGN);
        let (start, end) = (offset, offset + bytes);
        self.taken -= bytes;
        let place = self.free.partition_point(|&(other, _)| other < start);
        let joins_before = place > 0 && self.free[place - 1].1 == start;
        let joins_behind = self.free.get(place).is_some_and(|&(other, _)| other == end);
        match (joins_before, joins_behind) {
            (true, true) => {
                self.free[place - 1].1 = self.free[place].1;
                self.free.remove(place);
            }
            (true, false) => self.free[place - 1].1 = end,
            (false, true) => self.free[place].0 = start,
            (false, false) => self.free.insert(place, (start, end)),
        }
    }

    /// The bytes from the start to the end of the highest extent that was ever taken.
    pub(in crate::entries) fn high(&self) -> u64 {
        self.high
    }

    /// Whether nothing is taken.
    pub(super) fn is_empty(&self) -> bool {
        self.taken == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPACITY: u64 = 64 * ALIGN;

    proptest! {
        #[test]
        fn extents_that_are_taken_are_apart(steps in prop::collection::vec((1..5 * ALIGN, any::<bool>()), 1..80)) {
            let mut extents = Extents::new(CAPACITY);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (bytes, frees) in steps {
                if frees && !taken.is_empty() {
                    let (offset, bytes) = taken.swap_remove(bytes as usize % taken.len());
                    extents.free(offset, bytes);
                } else if let Some(offset) = extents.take(bytes) {
                    let end = offset + bytes;
                    prop_assert!(end <= CAPACITY && offset.is_multiple_of(ALIGN));
                    prop_assert!(taken.iter().all(|&(start, bytes)| end <= start || start + bytes <= offset));
                    taken.push((offset, bytes));
                }
            }
            prop_assert_eq!(extents.is_empty(), taken.is_empty());
            taken.into_iter().for_each(|(offset, bytes)| extents.free(offset, bytes));
            prop_assert!(extents.is_empty() && extents.take(CAPACITY) == Some(0), "free neighbours are joined");
        }
    }

    #[test]
    fn the_smallest_extent_that_is_large_enough_is_taken() {
        let mut extents = Extents::new(CAPACITY);
        let [large, _, small, _] = [10, 1, 2, 1].map(|units| extents.take(units * ALIGN).unwrap());
        extents.free(large, 10 * ALIGN);
        extents.free(small, 2 * ALIGN);
        assert_eq!(extents.take(2 * ALIGN - 1), Some(small));
    }
}
