//! By which factor the sizes of an entry differ from those of another one.

/// An allocation: its bytes, and how long it lives (0 if this does not matter).
pub(super) type SizeAndLife = (u64, u32);

/// Two ratios are equal if they differ by less than 1/64 of an octave. Sizes of images are rounded.
const STEPS: f64 = 64.0;
/// A size is another one times the factor if it differs by at most this share, 1/32, and [`UNIT`].
const ROUNDING: u64 = 32;
/// Small sizes are rounded by more.
const UNIT: u64 = 256;
/// The factor is at most four, as that of a batch or an image: so many steps.
const FARTHEST: i32 = 128;
/// So many allocations are compared with all of the other entry. They are enough to see a factor that a third of them share.
const SAMPLES: usize = 256;

/// The sizes of one entry as they would be in the other one: those that come there, or unlike all of them.
pub(super) fn scaled(one: &[SizeAndLife], other: &[SizeAndLife]) -> Vec<SizeAndLife> {
    let factor = factor(one, other);
    let mut known: Vec<u64> = other.iter().map(|&(bytes, _)| bytes).collect();
    known.sort_unstable();
    known.dedup();
    let scaled = |&(bytes, _): &SizeAndLife| {
        let wanted = (bytes as f64 * factor) as u64;
        let slack = wanted / ROUNDING + UNIT;
        let next = known.partition_point(|&size| size < wanted);
        let near = known[next.saturating_sub(1)..known.len().min(next + 1)].iter().copied();
        let nearest = near.min_by_key(|size| size.abs_diff(wanted)).filter(|size| size.abs_diff(wanted) <= slack);
        // Some sizes do not depend on the batch.
        let same = known.binary_search(&bytes).ok().map(|_| bytes);
        (nearest.or(same).unwrap_or(u64::MAX - bytes), 0)
    };
    one.iter().map(scaled).collect()
}

/// The factor that most pairs of neighbours share: both sizes differ by it.
fn factor(one: &[SizeAndLife], other: &[SizeAndLife]) -> f64 {
    let stride = (one.len() / SAMPLES).max(1);
    let (pairs, all) = (neighbours(one, stride), neighbours(other, 1));
    let mut votes = [0; 2 * FARTHEST as usize + 1];
    for &(pair, times) in &pairs {
        for &(like, likes) in &all {
            let [first, second] = [0, 1].map(|place| (like[place] - pair[place]) * STEPS);
            if (first - second).abs() < 1.0
                && let Some(votes) = votes.get_mut((first.round() as i32 + FARTHEST) as usize)
            {
                *votes += times * likes;
            }
        }
    }
    // A ratio on the border of two steps votes for either. Among equals, the one nearest to 1 is the likeliest.
    let around = |step: i32| (step - 1..=step + 1).filter_map(|step| votes.get(step as usize)).sum::<u64>();
    let best = (0..=2 * FARTHEST).max_by_key(|&step| (around(step), std::cmp::Reverse((step - FARTHEST).abs())));
    best.map_or(1.0, |step| (f64::from(step - FARTHEST) / STEPS).exp2())
}

/// The sizes of each `stride`th pair of neighbours in octaves, and how often they come: entries have few sizes, so far fewer pairs than
/// allocations.
fn neighbours(lives: &[SizeAndLife], stride: usize) -> Vec<([f64; 2], u64)> {
    let mut pairs: Vec<[u64; 2]> = lives.windows(2).step_by(stride).map(|pair| [pair[0].0, pair[1].0]).collect();
    pairs.sort_unstable();
    let octaves = |pair: [u64; 2]| pair.map(|bytes| (bytes.max(1) as f64).log2());
    pairs.chunk_by(|one, other| one == other).map(|like| (octaves(like[0]), like.len() as u64)).collect()
}
