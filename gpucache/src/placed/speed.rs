//! How long copies take, by those that were timed.
//!
//! A copy takes a while whatever its bytes are, so that small ones tell nothing of large ones: each counts with those of up to
//! twice as many bytes.

use std::array::from_fn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// As many as a counter has, which is enough for centuries.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Adds bytes or nanoseconds. The largest number stands for all that are larger.
pub(super) fn add(sum: &AtomicU64, more: u64) {
    // There is always a number to store, so that it does not fail.
    let _ = sum.fetch_update(Relaxed, Relaxed, |sum| Some(sum.saturating_add(more)));
}

/// From so many bytes on, by their logarithm, a copy takes much longer than it takes to begin.
const LARGE: usize = 20;
/// Copies of a size count for the link's speed if they moved at least this part of the bytes of all large ones.
const MANY: f64 = 16.0;

/// Copies of about as many bytes.
#[derive(Debug, Default)]
struct Timed {
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Timed {
    fn read(&self) -> [f64; 2] {
        [&self.bytes, &self.nanoseconds].map(|count| count.load(Relaxed) as f64)
    }
}

/// Copies that were timed.
#[derive(Debug)]
pub(super) struct Speed([Timed; 64]);

impl Default for Speed {
    fn default() -> Speed {
        Speed(from_fn(|_| Timed::default()))
    }
}

impl Speed {
    /// A copy of so many bytes was timed. One of none tells nothing.
    pub(super) fn note(&self, bytes: u64, time: Duration) {
        let timed = bytes.checked_ilog2().and_then(|size| self.0.get(size as usize));
        timed.into_iter().for_each(|timed| {
            add(&timed.bytes, bytes);
            add(&timed.nanoseconds, nanoseconds(time));
        });
    }

    /// How long a copy of so many bytes takes; nothing where none of about as many was timed.
    pub(super) fn usual_time(&self, bytes: u64) -> Duration {
        let timed = bytes.checked_ilog2().and_then(|size| self.0.get(size as usize));
        let [timed_bytes, timed] = timed.map_or([0.0; 2], Timed::read);
        Duration::from_nanos((timed * bytes as f64 / timed_bytes.max(1.0)) as u64)
    }

    /// Bytes a second of the size of large copies that is the fastest, if many bytes were moved by it: what a copy takes beside its bytes is the
    /// least part of those. Of all copies where none was large.
    pub(super) fn bytes_per_second(&self) -> Option<f64> {
        let sum = |timed: &[Timed]| {
            timed.iter().map(Timed::read).fold([0.0; 2], |sum, each| [sum[0] + each[0], sum[1] + each[1]])
        };
        let speed = |[bytes, nanoseconds]: [f64; 2]| (nanoseconds > 0.0).then(|| bytes * 1e9 / nanoseconds);
        let [all, _] = sum(&self.0[LARGE..]);
        let many = self.0[LARGE..].iter().map(Timed::read).filter(|[bytes, _]| *bytes * MANY >= all);
        many.filter_map(speed).reduce(f64::max).or_else(|| speed(sum(&self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_ends_at_the_largest_number() {
        let sum = AtomicU64::new(u64::MAX - 1);
        add(&sum, 1);
        add(&sum, u64::MAX);
        assert_eq!(sum.into_inner(), u64::MAX);
        let speed = Speed::default();
        (0..3).for_each(|_| speed.note(u64::MAX, Duration::MAX));
        assert_eq!((speed.usual_time(u64::MAX), speed.bytes_per_second()), (Duration::from_nanos(u64::MAX), Some(1e9)));
    }

    #[test]
    fn small_copies_tell_nothing_of_large_ones() {
        let speed = Speed::default();
        assert_eq!((speed.usual_time(1 << 20), speed.bytes_per_second()), (Duration::ZERO, None));
        speed.note(0, Duration::from_micros(10));
        assert_eq!((speed.usual_time(0), speed.bytes_per_second()), (Duration::ZERO, None));
        speed.note(100, Duration::from_micros(10));
        assert_eq!(speed.bytes_per_second(), Some(1e7));
        speed.note(1 << 30, Duration::from_secs(1));
        assert_eq!(speed.bytes_per_second(), Some(f64::from(1 << 30)));
        assert_eq!(speed.usual_time(3 << 29), Duration::from_millis(1500));
        assert_eq!(speed.usual_time(50), Duration::ZERO);
        assert_eq!(
            (speed.usual_time(100), speed.usual_time(120)),
            (Duration::from_micros(10), Duration::from_micros(12))
        );
    }
}
