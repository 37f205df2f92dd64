//! A possible loop: a period at which a window came again, and how well the allocations since then repeat those of a period earlier.

use crate::entries::Log;

/// The factor by which a size may differ from the one a period earlier. A batch or a text may be four times as long.
const VARIATION: u64 = 4;
/// Sizes that differ more have to differ by a factor that one of so many others lately had: a text that is ten times as long has arrays that
/// are ten times as long, and some that are a hundred times as long. Random sizes have all factors.
const FACTORS: usize = 4;
/// Factors are equal if their logarithms to the base 2 are, as multiples of 1/8.
const STEPS: f64 = 8.0;

/// One allocation in this many may differ, and a few at first, since an iteration may do something more now and then.
const MISSES: u32 = 16;

/// A difference counts as much as this many allocations that do not differ. At a count of [`OFF`], the iterations have another length by
/// now: some sizes still look alike then, one position off.
const MISS: u32 = 2;
const OFF: u32 = 32;

/// A period, and the stretch that repeats at it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) period: u32,
    /// The first allocation that repeats the one a period earlier.
    from: u32,
    misses: u32,
    /// [`MISS`] for each allocation that differed lately, less one for each that did not.
    lately: u32,
    /// How many allocations have to repeat before the loop is looked at.
    pub(super) wanted: u32,
    /// The last factors by which sizes differed by more than [`VARIATION`], the latest last.
    factors: [i16; FACTORS],
}

impl Candidate {
    /// A candidate whose window ends with allocation `last`. Looks back as far as the stretch repeats, for at most `most` steps. Returns
    /// the number of steps too.
    pub(super) fn new(log: &Log, tokens: &[u32], last: u32, period: u32, most: u32) -> (Candidate, u32) {
        let farthest = last.saturating_sub(most).max(period);
        let factors = [0; FACTORS];
        let mut candidate = Candidate { period, from: last + 1, misses: 0, lately: 0, wanted: period, factors };
        while candidate.from > farthest && candidate.is_like(log, tokens, candidate.from - 1) {
            candidate.from -= 1;
        }
        (candidate, last + 1 - candidate.from)
    }

    /// Whether an allocation may be the one a period earlier in another iteration.
    #[inline]
    fn is_like(&mut self, log: &Log, tokens: &[u32], number: u32) -> bool {
        let before = number - self.period;
        let bytes = |number| log.bytes_at(number).unwrap_or(0);
        let (one, other) = (bytes(number), bytes(before));
        let is_near = one / VARIATION <= other && other / VARIATION <= one;
        let are_drops_alike = tokens[number as usize] == tokens[before as usize];
        are_drops_alike && (is_near || self.is_by_known_factor(one, other))
    }

    /// Whether two sizes differ by a factor that others lately had. Remembers the factor.
    #[cold]
    fn is_by_known_factor(&mut self, one: u64, other: u64) -> bool {
        let factor = ((one as f64 / other.max(1) as f64).log2() * STEPS).round() as i16;
        let known = self.factors.iter().position(|&known| known == factor);
        self.factors[known.unwrap_or(0)..].rotate_left(1);
        self.factors[FACTORS - 1] = factor;
        known.is_some()
    }

    /// Compares the allocation of this number. Returns whether the stretch goes on.
    #[inline]
    pub(super) fn goes_on(&mut self, log: &Log, tokens: &[u32], number: u32) -> bool {
        if self.is_like(log, tokens, number) {
            self.lately = self.lately.saturating_sub(1);
            return true;
        }
        self.misses += 1;
        self.lately += MISS;
        self.misses <= slack(self.run(number)) && self.lately < OFF
    }

    /// The first allocation that was repeated.
    pub(super) fn first(&self) -> u32 {
        self.from - self.period
    }

    /// How many allocations repeat the one a period earlier, up to the one of this number. The first iteration often begins with a few
    /// that differ, since nothing of an earlier iteration was dropped before them.
    pub(super) fn run(&self, number: u32) -> u32 {
        number + 1 - self.from + slack(self.period).min(self.from - self.period)
    }
}

/// How many allocations of an iteration may differ.
fn slack(period: u32) -> u32 {
    period / MISSES + 1
}
