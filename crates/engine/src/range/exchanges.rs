//! How much a range may reserve before pages move, and how often they may move.

use crate::base::amounts::total;

/// How much more than its peak of live memory a range may reserve before pages move: 1/64 at first, and a third more after each
/// [`PER_SHARE`] moves.
/// Moving pages costs calls. A training makes up to 30 moves in its first three steps, and none later. Programs that never settle would move
/// pages for ever. First passes of seven traces reserved 1.020 times their live memory on average, and 1.046 with 1/5 from the start.
const APART_SHARES: [u64; 8] = [64, 48, 36, 27, 20, 15, 11, 8];
/// Each of these shares holds for [`LAST_TIMES`] as many moves. A few programs need more than 1/5 beyond their peak, or they would move pages
/// for ever: best fit needs up to 1.39 times the live memory of small programs of random sizes.
const LAST_SHARES: [u64; 3] = [5, 4, 3];
const LAST_TIMES: usize = 8;
/// The moves with each of [`APART_SHARES`]. A training that makes 30 moves in its first steps thus gets no further than the second share.
const PER_SHARE: u64 = 16;
/// So many moves that take at most one call for each freed GiB count as one move.
const CHEAP: u64 = 4;
/// Once the peak has grown by this share, 1/4, other work has begun: the moves and the waits count anew.
const ANEW: u64 = 4;
/// The granules that a range may reserve beyond its peak of live memory, if that is more than its share, but no more than 1/5:
/// 64 MiB on a GPU. In a range of few granules, a single gap is a large share, and the memory is not worth the calls.
const APART_GRANULES: u64 = 32;
/// The number of calls that may move pages before the range grows, however many blocks were freed: twice the 1024 handles of a range that has
/// grown step by step, and one for each granule of the peak of live memory. Large blocks move by many calls. Without the second part, a recurrent
/// network with arrays of 400 MB reserved 1.20 times its live memory of 4 GB, and 1.01 with it.
const FREE_CALLS: u64 = 2048;
/// The number of frees that allow one more call that moves pages before the range grows. So a scope whose sizes never repeat gets more
/// memory, instead of calls for most of its allocations.
const FREES_PER_CALL: u64 = 16;

/// For a request of at least 1 GiB, each freed GiB allows one more call. A GPU takes about a millisecond to fill and read as much, and a call
/// takes some microseconds. Smaller requests get memory instead, as above. A move that takes no more calls than that is cheap. A mixture of
/// experts with cheap moves in each step reserved up to 1.045 times its live memory when they counted like others, and 1.02 since.
const HUGE: u64 = 1 << 30;

/// The moves of pages that a range made although it could have grown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exchanges {
    /// Calls of the device.
    calls: u64,
    /// How often pages moved since the peak of live memory was `mark` bytes, in cheap moves.
    times: u64,
    mark: u64,
    /// The bytes that had been freed at the last move.
    freed: u64,
}

impl Exchanges {
    /// Counts a move that took this many calls. `peak` is the peak of live memory, and `freed` are the bytes that were freed so far.
    pub(super) fn count(&mut self, peak: u64, calls: u64, freed: u64) {
        let times = self.times(peak);
        let is_cheap = calls <= freed.saturating_sub(self.freed) / HUGE;
        *self = Exchanges {
            calls: self.calls + calls,
            times: times + if is_cheap { 1 } else { CHEAP },
            mark: if times == 0 { peak } else { self.mark },
            freed,
        };
    }

    /// Whether pages moved too often for so many frees of so many bytes, for a peak of so many granules, and for a request of `bytes`.
    pub(super) fn are_too_many(self, bytes: u64, (frees, freed): (u64, u64), granules: u64) -> bool {
        let by_bytes = if bytes >= HUGE { freed / HUGE } else { 0 };
        self.calls > total([FREE_CALLS, granules, frees / FREES_PER_CALL, by_bytes])
    }

    /// How many bytes a range may reserve before pages move. `peak` bytes were live at most, and `due` will be with the request.
    pub(super) fn enough(self, peak: u64, due: u64, granule: u64) -> u64 {
        let level = (self.times(peak) / (PER_SHARE * CHEAP)) as usize;
        let many = level.saturating_sub(APART_SHARES.len()) / LAST_TIMES;
        let last = LAST_SHARES[many.min(LAST_SHARES.len() - 1)];
        let share = APART_SHARES.get(level).copied().unwrap_or(last);
        // In a small range, blocks and pages have similar sizes, and the gaps between blocks are whole pages.
        let few = APART_GRANULES.saturating_mul(granule).min(due / LAST_SHARES[0]);
        due.saturating_add((due / share).max(few))
    }

    /// How often pages moved for the work that has this peak of live memory.
    fn times(self, peak: u64) -> u64 {
        if is_other_work(peak, self.mark) { 0 } else { self.times }
    }
}

/// Whether work with this peak of live memory is other work than that with the peak `mark`.
pub(super) fn is_other_work(peak: u64, mark: u64) -> bool {
    peak > mark.saturating_add(mark / ANEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_grows_with_the_moves_until_other_work_begins() {
        const PEAK: u64 = 1 << 34;
        let mut exchanges = Exchanges::default();
        let share = |exchanges: Exchanges, peak| peak as f64 / (exchanges.enough(peak, peak, 1 << 21) - peak) as f64;
        for expected in [64.0, 48.0, 36.0, 27.0, 20.0, 15.0, 11.0, 8.0, 5.0, 5.0] {
            assert!((share(exchanges, PEAK) - expected).abs() < 0.1);
            (0..PER_SHARE / 2).for_each(|_| exchanges.count(PEAK, 1, 0));
            (0..PER_SHARE / 2 * CHEAP).for_each(|_| exchanges.count(PEAK, 1, exchanges.freed + HUGE));
            exchanges.freed = 0;
        }
        for expected in [5.0, 4.0, 3.0, 3.0] {
            assert!((share(exchanges, PEAK) - expected).abs() < 0.1);
            (0..8 * PER_SHARE).for_each(|_| exchanges.count(PEAK, 1, 0));
        }
        assert_eq!(share(exchanges, 2 * PEAK), 64.0);
        exchanges.count(2 * PEAK, 1, 0);
        assert_eq!(share(exchanges, 2 * PEAK), 64.0);
        assert!(!exchanges.are_too_many(1, (0, 0), 0));
        exchanges.count(2 * PEAK, FREE_CALLS, 0);
        assert!(exchanges.are_too_many(1, (0, 0), 0) && !exchanges.are_too_many(1, (1 << 20, 0), 0));
        // Freed bytes count only for huge requests.
        let freed = FREE_CALLS * HUGE;
        assert!(exchanges.are_too_many(HUGE - 1, (0, freed), 0) && !exchanges.are_too_many(HUGE, (0, freed), 0));
    }
}
