//! Conflict-weighted restarts of the skyline pass. A pass aims at a target height. If it fails in a section, the unplaced items of
//! that section gain weight, so that the next pass places them earlier.

use crate::layout::problem::{Item, Problem};
use crate::layout::random::Random;
use crate::layout::sort;

/// How far chance moves a key of a weighted pass, as a share of the key. Without noise, passes that failed at the same place would
/// repeat the same steps. With much more noise, the weights would have no effect.
const NOISE: f64 = 0.2;
/// The power with which the load counts: at half the highest load an item's area counts 1/256 of its value at the highest load.
/// A pass can waste the least where the load is highest.
const PEAK_POWER: i32 = 8;

/// The weights that earlier passes raised.
#[derive(Clone, Debug)]
pub(super) struct Restarts {
    weight: Vec<f64>,
    random: Random,
}

impl Restarts {
    pub(super) fn new(problem: &Problem) -> Self {
        Self { weight: vec![1.0; problem.items.len()], random: Random::of(problem) }
    }

    /// The order for the next pass: area, times a power of the load, times the square of the weight.
    pub(super) fn order(&mut self, problem: &Problem, peaks: &[u64]) -> Vec<u32> {
        let bound = problem.bound as f64;
        let key = |((item, &peak), weight): ((&Item, &u64), &f64)| {
            let area = item.duration() as f64 * item.size as f64 / bound;
            let key = area * (peak as f64 / bound).powi(PEAK_POWER) * weight * weight;
            // Positive floats have the same order as their bits.
            !u64::from(((key * self.random.around_one(NOISE)) as f32).to_bits())
        };
        let keys: Vec<u64> = problem.items.iter().zip(peaks).zip(&self.weight).map(key).collect();
        sort::ascending(&keys)
    }

    /// A pass failed while these items were still unplaced.
    pub(super) fn failed(&mut self, unplaced: impl Iterator<Item = usize>) {
        unplaced.for_each(|i| self.weight[i] += 1.0);
    }
}
