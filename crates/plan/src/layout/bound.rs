//! The lower bound: no layout is lower than the largest sum of sizes alive at one time.

use crate::layout::Buffer;

/// The largest sum of live sizes over time, in bytes; `u64::MAX` if the sum does not fit.
///
/// ```
/// use gpucache_plan::{Buffer, lower_bound};
/// let buffers = [Buffer { lower: 0, upper: 2, size: 3 }, Buffer { lower: 1, upper: 3, size: 4 }];
/// assert_eq!(lower_bound(&buffers), 7);
/// ```
pub fn lower_bound(buffers: &[Buffer]) -> u64 {
    let live = buffers.iter().filter(|b| b.lower < b.upper);
    // At equal times, ends sort before starts, because lifetimes are half-open.
    let mut events: Vec<(u32, bool, u64)> =
        live.flat_map(|b| [(b.lower, true, b.size), (b.upper, false, b.size)]).collect();
    events.sort_unstable();
    let (mut load, mut peak) = (0u128, 0u128);
    for (_, starts, size) in events {
        load = if starts { load + u128::from(size) } else { load - u128::from(size) };
        peak = peak.max(load);
    }
    u64::try_from(peak).unwrap_or(u64::MAX)
}
