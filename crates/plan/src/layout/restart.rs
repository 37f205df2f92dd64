//! Conflict-weighted restarts of the skyline pass: aim at a height, and where a pass fails, raise the weight of what it
//! could not place there, so that the next one places it earlier.

use crate::layout::problem::{Item, Problem};
use crate::layout::random::Random;
use crate::layout::sort;

/// How far chance moves a key of a weighted pass, as a share of it. Without it passes that failed at the same place would go the
/// same way again; with much more, what was learned would drown in it.
const NOISE: f64 = 0.2;
/// The power by which the fullest sections count: at half the highest load an item's area counts 1/256 of what it would at the
/// highest one, where a pass has least to waste.
const PEAK_POWER: i32 = 8;

/// What passes have learned.
#[derive(Clone, Debug)]
pub(super) struct Restarts {
    weight: Vec<f64>,
    random: Random,
}

impl Restarts {
    pub(super) fn new(problem: &Problem) -> Self {
        Self { weight: vec![1.0; problem.items.len()], random: Random::of(problem) }
    }

    /// The order for the next pass: by area, where the load is high, times the square of the weight.
    pub(super) fn order(&mut self, problem: &Problem, peaks: &[u64]) -> Vec<u32> {
        let bound = problem.bound as f64;
        let key = |((item, &peak), weight): ((&Item, &u64), &f64)| {
            let area = item.duration() as f64 * item.size as f64 / bound;
            let key = area * (peak as f64 / bound).powi(PEAK_POWER) * weight * weight;
            // Positive floats sort like their bits.
            !u64::from(((key * self.random.around_one(NOISE)) as f32).to_bits())
        };
        let keys: Vec<u64> = problem.items.iter().zip(peaks).zip(&self.weight).map(key).collect();
        sort::ascending(&keys)
    }

    /// A pass failed where these were still to be placed.
    pub(super) fn failed(&mut self, unplaced: impl Iterator<Item = usize>) {
        unplaced.for_each(|i| self.weight[i] += 1.0);
    }
}
