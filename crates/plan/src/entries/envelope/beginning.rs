//! Whether an entry may begin with some allocations.

use super::{Envelope, Expected};

/// Sizes that changed together have the same ratio to those that are known, up to this fraction, 1/8.
const ALIKE: u128 = 8;

impl Envelope {
    /// Whether the array of a position may have this many bytes in an entry to come: a known size, or another one if its sizes vary.
    pub fn may_be(&self, position: usize, bytes: u64) -> bool {
        self.at(position).is_some_and(|expected| expected.may_be(bytes))
    }

    /// Whether an array of this many bytes may be that of a position in another size.
    pub fn is_like(&self, position: usize, bytes: u64) -> bool {
        self.at(position).is_some_and(|expected| expected.is_like(bytes))
    }

    /// Whether an entry may begin with allocations of these sizes. All sizes that are not known have to differ by the same factor from
    /// those that are, as with another batch. Sizes that were equal so far have to be equal still.
    pub fn may_begin(&self, sizes: &[u64]) -> bool {
        let pairs = || self.positions.iter().zip(sizes.iter().copied());
        if pairs().len() < sizes.len() {
            return false;
        }
        let changed = || pairs().filter(|(expected, bytes)| !expected.may_be(*bytes));
        let Some((first, first_bytes)) = changed().next() else { return true };
        let has_changed_too = |(expected, bytes): (&Expected, u64)| {
            let scaled = u128::from(bytes) * u128::from(first.most);
            let other = u128::from(first_bytes) * u128::from(expected.most);
            let of_same = pairs().filter(|(same, _)| (same.least, same.most) == (expected.least, expected.most));
            expected.is_like(bytes)
                && scaled.abs_diff(other) <= other / ALIKE
                && of_same.map(|(_, same)| same).all(|same| same == bytes)
        };
        changed().all(has_changed_too)
    }
}

impl Expected {
    /// Sizes that vary may be as far beyond the known ones as these are apart.
    fn may_be(&self, bytes: u64) -> bool {
        let [bytes_, least, most] = [bytes, self.least, self.most].map(u128::from);
        let is_near = bytes_ * least <= most * most && bytes_ * most >= least * least;
        self.grows_to(bytes) || is_near && self.is_like(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::Log;

    fn envelope(one: &[u64], other: &[u64]) -> Envelope {
        let log = |sizes: &[u64]| {
            let mut log = Log::default();
            for (number, &bytes) in (0..).zip(sizes) {
                assert!(log.allocated(0, bytes).is_some());
                log.dropped(number);
            }
            log
        };
        Envelope::of(&log(one), &log(other)).unwrap()
    }

    #[test]
    fn an_entry_may_begin_with_known_sizes_or_with_those_of_another_batch() {
        let envelope = envelope(&[800, 800, 3200, 64, 9], &[900, 900, 3600, 64, 9]);
        let table: [(&[u64], bool); 7] = [
            (&[800, 900, 3300, 64], true),
            (&[950, 950, 3900, 64], true),
            (&[2000, 2000, 8000, 64], true),
            (&[2000, 900, 8000, 64], false),
            (&[2000, 2000, 3600, 100], false),
            (&[64, 64, 64, 64], false),
            (&[800, 800, 3200, 64, 9, 9], false),
        ];
        for (sizes, may_begin) in table {
            assert_eq!(envelope.may_begin(sizes), may_begin, "{sizes:?}");
        }
        assert!(envelope.may_be(0, 950) && !envelope.may_be(0, 2000) && envelope.is_like(0, 2000));
    }
}
