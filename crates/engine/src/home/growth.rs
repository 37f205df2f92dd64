//! Whether more and more arrays of a scope are alive at the ends of its entries, from its first entry until now.
//!
//! The record has a fixed size. When it is full, the number of entries between two points doubles. So a leak shows after some tens
//! of entries, and a slow leak that takes a hundred thousand entries to show is found too.

/// The number of arrays that were alive at the ends of evenly spaced entries, and their bytes. The first point is as many entries after the
/// beginning as two points are apart.
#[derive(Clone, Debug)]
pub(crate) struct AliveOverTime {
    points: [(u64, u64); POINTS],
    known: usize,
    spacing: u32,
}

/// The number of points at which every second point is dropped.
const POINTS: usize = 24;
/// Entries between the first points.
pub(crate) const FIRST_SPACING: u32 = 8;
/// Fewer points than this say nothing.
const FEW: usize = 8;
/// Where arrays come and go at random, their number falls from one point to the next about as often as it rises. Where some are
/// never dropped, it falls in at most one of this many steps. Of 3,000 programs whose number of arrays is a random walk, 10 seem to
/// leak; with 8 instead of 16, it would be 31.
const STEADY: usize = 16;

impl Default for AliveOverTime {
    fn default() -> AliveOverTime {
        AliveOverTime { points: [(0, 0); POINTS], known: 0, spacing: FIRST_SPACING }
    }
}

impl AliveOverTime {
    /// Notes the arrays that are alive at the end of an entry, and their bytes. Returns the number of entries until the next note.
    pub(crate) fn note(&mut self, arrays: u64, bytes: u64) -> u32 {
        self.points[self.known] = (arrays, bytes);
        self.known += 1;
        if self.known == POINTS {
            self.known /= 2;
            self.spacing = self.spacing.saturating_mul(2);
            (0..self.known).for_each(|place| self.points[place] = self.points[2 * place + 1]);
        }
        self.spacing
    }

    /// How much more is alive now than after a quarter of all entries: arrays, their bytes, and the number of entries in between. `None`
    /// unless the number of arrays grew steadily, in each third of that time, and by `least` arrays or more. The first quarter of the
    /// entries is left out, since programs fill their caches then.
    pub(super) fn growth(&self, least: u64) -> Option<(u64, u64, u64)> {
        let points = &self.points[..self.known];
        let lately = &points[points.len() / 4..];
        let (first, last) = (lately.first()?, lately.last()?);
        let third = |number: usize| lately[(lately.len() - 1) * number / 3].0;
        let steps = lately.len() - 1;
        let fewer = lately.windows(2).filter(|pair| pair[1].0 < pair[0].0).count();
        let is_steady = fewer * STEADY <= steps && (0..3).all(|number| third(number) < third(number + 1));
        let arrays = last.0.saturating_sub(first.0);
        let (bytes, entries) = (last.1.saturating_sub(first.1), steps as u64 * u64::from(self.spacing));
        (points.len() >= FEW && is_steady && arrays >= least).then_some((arrays, bytes, entries))
    }

    /// Whether it is too early for [`growth`](AliveOverTime::growth), but the number of live arrays, `now` outside of an entry, rose since
    /// the first point and never fell.
    pub(super) fn rose_so_far(&self, now: u64) -> bool {
        let points = &self.points[..self.known.min(FEW)];
        let is_early = points.len() < FEW;
        let has_risen = points.first().is_some_and(|first| first.0 < now);
        is_early && has_risen && points.iter().map(|(arrays, _)| *arrays).chain([now]).is_sorted()
    }
}

/// The first number of entries after which [`AliveOverTime::growth`] can tell.
pub(super) const FIRST_GROWTH: u64 = FEW as u64 * FIRST_SPACING as u64;

#[cfg(test)]
mod tests {
    use super::*;

    /// The record after `entries` entries. After entry `n`, `alive(n)` arrays of ten bytes are alive.
    fn after(entries: u64, alive: impl Fn(u64) -> u64) -> AliveOverTime {
        let (mut over_time, mut next) = (AliveOverTime::default(), u64::from(FIRST_SPACING));
        for entry in 1..=entries {
            if entry == next {
                let arrays = alive(entry);
                next += u64::from(over_time.note(arrays, 10 * arrays));
            }
        }
        over_time
    }

    #[test]
    fn a_leak_shows_however_rare_it_is() {
        for (entries, most) in [(100, 10), (300, 50), (2_000, 300), (100_000, 10_000)] {
            for period in (1..=most).step_by(1 + most as usize / 60) {
                let growth = after(entries, |entry| 7 + entry / period).growth(3);
                let (arrays, bytes, over) = growth.unwrap_or_else(|| panic!("{period} in {entries}"));
                assert!(arrays.abs_diff(over / period) <= 1 && bytes == 10 * arrays);
                assert!(over <= entries && over >= entries / 2, "{over} of {entries}");
            }
        }
    }

    #[test]
    fn what_fills_up_or_comes_and_goes_is_no_leak() {
        let scattered = |entry: u64| entry.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57;
        for entries in (50..3_000).chain([100_000, 1_000_000]) {
            assert_eq!(after(entries, |_| 100).growth(1), None);
            assert_eq!(after(entries, |entry| entry % 50).growth(1), None, "{entries}");
            assert_eq!(after(entries, |entry| 1_000_000 - entry / 2).growth(1), None);
            assert_eq!(after(entries, scattered).growth(1), None, "{entries}");
            assert_eq!(after(entries, |entry| entry.min(entries * 3 / 5)).growth(1), None, "{entries}");
        }
        assert_eq!(after(40, |entry| entry).growth(1), None, "too early");
    }

    #[test]
    fn what_rises_in_few_entries_is_seen_until_growth_can_tell() {
        for entries in 11..FIRST_GROWTH {
            for period in 1..=3 {
                assert!(
                    after(entries, |entry| 7 + entry / period).rose_so_far(7 + entries / period),
                    "{entries}, {period}"
                );
            }
            assert!(
                !after(entries, |_| 7).rose_so_far(7)
                    && !after(entries, |entry| 100 - entry).rose_so_far(100 - entries)
            );
        }
        assert!(!after(7, |entry| entry).rose_so_far(7), "nothing is known");
        let told = after(FIRST_GROWTH, |entry| entry);
        assert!(!told.rose_so_far(FIRST_GROWTH) && told.growth(3).is_some());
    }
}
