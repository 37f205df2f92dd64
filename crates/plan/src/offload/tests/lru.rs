//! Least recently used: chooses the arrays to evict if the next uses are not known, as in an entry that deviates from its order.

use std::collections::BTreeSet;

/// The arrays on the device, ordered by their last use.
#[derive(Clone, Debug, Default)]
pub(super) struct Lru {
    /// For each array: the number of its last use, while it is on the device.
    used: Vec<Option<u64>>,
    by_use: BTreeSet<(u64, u32)>,
    uses: u64,
}

impl Lru {
    /// Notes a use of an array, which is then on the device.
    pub(super) fn note(&mut self, array: u32) {
        self.forget(array);
        if self.used.len() <= array as usize {
            self.used.resize(array as usize + 1, None);
        }
        self.uses += 1;
        self.used[array as usize] = Some(self.uses);
        self.by_use.insert((self.uses, array));
    }

    /// Notes that an array has left the device.
    pub(super) fn forget(&mut self, array: u32) {
        if let Some(last) = self.used.get_mut(array as usize).and_then(Option::take) {
            self.by_use.remove(&(last, array));
        }
    }

    /// The arrays to evict for this many bytes, in this order; `None` if all that may leave are too few.
    ///
    /// `bytes` returns the size of an array that may leave, and `None` for one that is held.
    pub(super) fn victims(&self, need: u64, bytes: impl Fn(u32) -> Option<u64>) -> Option<Vec<u32>> {
        let mut found = 0;
        let mut victims = Vec::new();
        let mut candidates = self.by_use.iter();
        while found < need {
            let &(_, array) = candidates.next()?;
            if let Some(bytes) = bytes(array) {
                found += bytes;
                victims.push(array);
            }
        }
        Some(victims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_goes_first_and_nothing_that_is_held() {
        let mut lru = Lru::default();
        [3, 1, 2, 3, 0].iter().for_each(|&array| lru.note(array));
        lru.forget(0);
        let bytes = |array| (array != 2).then_some(10);
        assert_eq!(lru.victims(20, bytes), Some(vec![1, 3]));
        assert_eq!(lru.victims(5, bytes), Some(vec![1]));
        assert_eq!(lru.victims(0, bytes), Some(vec![]));
        assert_eq!(lru.victims(21, bytes), None, "the third is held, and one is gone");
    }
}
