//! A small generator of pseudo-random numbers (SplitMix64, Steele, Lea and Flood 2014), so that runs repeat exactly.

use crate::layout::problem::Problem;

#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// A generator whose seed is computed from the items.
    pub(super) fn of(problem: &Problem) -> Self {
        let mut random = Self(problem.bound);
        for item in &problem.items {
            random.0 ^= item.size ^ u64::from(item.lower) << 32 ^ u64::from(item.upper) << 48;
            random.0 = random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Uniform in `1 - spread .. 1 + spread`.
    pub(super) fn around_one(&mut self, spread: f64) -> f64 {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        1.0 + spread * (2.0 * unit - 1.0)
    }
}
