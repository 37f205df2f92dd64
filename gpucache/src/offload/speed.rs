//! The speed of copies, from the timed ones.
//!
//! Each copy has a fixed cost, so that small copies say nothing about large ones. Each copy counts with those of up to twice as many
//! bytes.

use std::time::Duration;

/// From as many bytes on (as a logarithm), a copy takes much longer than its fixed cost.
const LARGE: usize = 20;
/// Copies of a size count for the link's speed if they moved at least this part of the bytes of all large ones.
const MANY: f64 = 16.0;

/// The timed copies: their bytes and seconds for each size.
#[derive(Debug)]
pub(super) struct Speed([[f64; 2]; 64]);

impl Default for Speed {
    fn default() -> Speed {
        Speed([[0.0; 2]; 64])
    }
}

impl Speed {
    /// Counts a timed copy. A copy of 0 bytes does not count, and neither does one of no time, which failed.
    pub(super) fn note(&mut self, bytes: u64, time: Duration) {
        if let Some(size) = bytes.checked_ilog2().filter(|_| !time.is_zero()) {
            let [all, seconds] = &mut self.0[size as usize];
            *all += bytes as f64;
            *seconds += time.as_secs_f64();
        }
    }

    /// The bytes per second of the fastest size of large copies, if it moved many bytes: there the fixed cost is the smallest share. Of all
    /// copies, if none was large.
    pub(super) fn bytes_per_second(&self) -> Option<f64> {
        let sum = |timed: &[[f64; 2]]| timed.iter().fold([0.0; 2], |sum, each| [sum[0] + each[0], sum[1] + each[1]]);
        let speed = |[bytes, seconds]: [f64; 2]| (seconds > 0.0).then(|| bytes / seconds);
        let large = &self.0[LARGE..];
        let [all, _] = sum(large);
        let many = large.iter().filter(|[bytes, _]| bytes * MANY >= all);
        many.filter_map(|&timed| speed(timed)).reduce(f64::max).or_else(|| speed(sum(&self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_copies_tell_nothing_of_large_ones() {
        let mut speed = Speed::default();
        assert_eq!(speed.bytes_per_second(), None);
        speed.note(0, Duration::from_micros(10));
        assert_eq!(speed.bytes_per_second(), None);
        speed.note(1 << 10, Duration::from_secs(1));
        assert_eq!(speed.bytes_per_second(), Some(1024.0));
        speed.note(1 << 30, Duration::from_secs(1));
        assert_eq!(speed.bytes_per_second(), Some(f64::from(1 << 30)));
        // A copy that failed has no time.
        speed.note(1 << 40, Duration::ZERO);
        assert_eq!(speed.bytes_per_second(), Some(f64::from(1 << 30)));
        (0..3).for_each(|_| speed.note(u64::MAX, Duration::MAX));
        assert!(speed.bytes_per_second().is_some_and(f64::is_finite));
    }
}
