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

/// The order for the next pass: area, times a power of the load, times the square of the weight, which earlier passes raised.
pub(super) fn order(problem: &Problem, peaks: &[u64], weights: &[f64], random: &mut Random) -> Vec<u32> {
    let bound = problem.bound as f64;
    let key = |((item, &peak), weight): ((&Item, &u64), &f64)| {
        let area = item.duration() as f64 * item.size as f64 / bound;
        let key = area * (peak as f64 / bound).powi(PEAK_POWER) * weight * weight;
        // Positive floats have the same order as their bits.
        !u64::from(((key * random.around_one(NOISE)) as f32).to_bits())
    };
    let keys: Vec<u64> = problem.items.iter().zip(peaks).zip(weights).map(key).collect();
    sort::ascending(&keys)
}
