//! Where the circle of entries is cut open for a layout, which knows lives from a beginning to an end alone.
//!
//! What is alive at the cut keeps its place to itself. So it is made where the fewest bytes are alive: between two entries, if
//! nothing wraps around.

use super::Buffer;

/// The cut, before an allocation of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seam {
    at: u32,
    /// Allocations of the entry.
    entry: u32,
}

impl Seam {
    /// The best one for lives that begin one by one: bytes, and where each ends, counted on beyond the entry if it wraps.
    pub(super) fn of(entry: u32, lives: impl Iterator<Item = (u64, Option<u32>)>) -> Seam {
        let mut changes = vec![0i128; entry as usize + 1];
        let mut wraps = false;
        for (position, (bytes, end)) in lives.enumerate() {
            let Some(end) = end else { continue };
            let bytes = i128::from(bytes);
            changes[position + 1] += bytes;
            changes[end.min(entry) as usize] -= bytes;
            if let Some(end) = end.checked_sub(entry).filter(|&end| end > 0) {
                wraps = true;
                changes[0] += bytes;
                changes[end as usize] -= bytes;
            }
        }
        if !wraps {
            return Seam { at: 0, entry };
        }
        let alive = changes.iter().scan(0, |alive, change| {
            *alive += change;
            Some(*alive)
        });
        let (at, _) = alive.take(entry as usize).enumerate().min_by_key(|&(_, alive)| alive).unwrap_or((0, 0));
        Seam { at: at as u32, entry }
    }

    /// The buffer of a life, in time that begins at the cut.
    pub(super) fn buffer(&self, position: u32, end: u32, size: u64) -> Buffer {
        let lower = (position + self.entry - self.at) % self.entry;
        let upper = lower + (end - position);
        match upper > self.entry {
            true => Buffer { lower: 0, upper: self.entry, size },
            false => Buffer { lower, upper, size },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_cut_is_where_the_fewest_bytes_are_alive() {
        // Gradients: born one by one, and dropped when the next entry has begun.
        let lives = [(8, Some(1)), (4, Some(2)), (100, Some(6)), (100, Some(6))];
        let seam = Seam::of(4, lives.into_iter());
        assert_eq!(seam, Seam { at: 2, entry: 4 });
        assert_eq!(seam.buffer(2, 6, 100), Buffer { lower: 0, upper: 4, size: 100 });
        assert_eq!(seam.buffer(0, 1, 8), Buffer { lower: 2, upper: 3, size: 8 });
    }

    proptest! {
        /// Whoever is alive at one time in the circle is so in the time that begins at the cut.
        #[test]
        fn what_overlaps_in_the_circle_overlaps_behind_the_cut(lives in prop::collection::vec((1..9u64, 0..1000u32), 1..20)) {
            let entry = lives.len() as u32;
            let end = |position: u32, length: u32| position + 1 + length % entry;
            let lives: Vec<(u64, u32)> = (0..).zip(lives).map(|(at, (bytes, length))| (bytes, end(at, length))).collect();
            let seam = Seam::of(entry, lives.iter().map(|&(bytes, end)| (bytes, Some(end))));
            let at = |position: u32, end: u32, time: u32| {
                (position..end).contains(&time) || (position..end).contains(&(time + entry))
            };
            for (one, &(_, one_end)) in (0..).zip(&lives) {
                for (other, &(_, other_end)) in (0..).zip(&lives) {
                    let meet = (0..entry).any(|time| at(one, one_end, time) && at(other, other_end, time));
                    let (a, b) = (seam.buffer(one, one_end, 1), seam.buffer(other, other_end, 1));
                    prop_assert!(!meet || (a.lower < b.upper && b.lower < a.upper), "{:?} {:?}", a, b);
                }
            }
        }
    }
}
