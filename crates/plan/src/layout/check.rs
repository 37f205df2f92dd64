//! Proof of a layout: a sweep over time that keeps the live buffers sorted by offset and compares neighbours. Also the lower bound: no
//! layout is lower than the largest sum of sizes alive at one time.
//!
//! While no two live buffers overlap, a new one can only overlap the live neighbour below or above it, so each start costs
//! two look-ups: O(n log n) in all.

use crate::layout::{Buffer, Layout, LayoutError, Live, sort};

/// Proves that `layout` is valid for `buffers` and that its height is the true one.
///
/// Buffers of size 0, and those with `lower >= upper`, occupy nothing and are ignored.
///
/// # Errors
/// Returns the first fault found: missing offsets, two buffers that are alive at once and share an address, an end past `u64`, or
/// a height that is not the highest end.
///
/// ```
/// use gpucache_plan::{Buffer, Layout, LayoutError, check};
/// let buffers = [Buffer { lower: 0, upper: 2, size: 3 }, Buffer { lower: 1, upper: 3, size: 4 }];
/// assert_eq!(check(&buffers, &Layout { offsets: vec![0, 3], height: 7 }), Ok(()));
/// let high = Layout { offsets: vec![0, 3], height: 8 };
/// assert_eq!(check(&buffers, &high), Err(LayoutError::Height { stated: 8, found: 7 }));
/// ```
pub fn check(buffers: &[Buffer], layout: &Layout) -> Result<(), LayoutError> {
    if buffers.len() != layout.offsets.len() {
        return Err(LayoutError::Length { buffers: buffers.len(), offsets: layout.offsets.len() });
    }
    let mut highest = 0;
    let (mut times, mut events) = (Vec::new(), Vec::new());
    for buffer in (0..buffers.len()).filter(|&buffer| buffers[buffer].occupies()) {
        let end = layout.offsets[buffer].checked_add(buffers[buffer].size);
        highest = highest.max(end.ok_or(LayoutError::PastEnd { buffer })?);
        // At equal times, ends sort before starts, because lifetimes are half-open.
        times.extend([u64::from(buffers[buffer].lower) << 1 | 1, u64::from(buffers[buffer].upper) << 1]);
        events.extend([(buffer, true), (buffer, false)]);
    }
    if highest != layout.height {
        return Err(LayoutError::Height { stated: layout.height, found: highest });
    }
    let in_time = sort::ascending(&times);
    sweep(buffers, layout, in_time.into_iter().map(|event| events[event as usize]))
}

/// Begins and ends the lives of the buffers in the order of time.
fn sweep(buffers: &[Buffer], layout: &Layout, events: impl Iterator<Item = (usize, bool)>) -> Result<(), LayoutError> {
    let mut live = Live::none_of(buffers, layout);
    for (buffer, starts) in events {
        if !starts {
            live.end(buffer);
            continue;
        }
        if let Some(other) = live.overlapping(buffer) {
            return Err(LayoutError::Overlap { first: buffer.min(other), second: buffer.max(other) });
        }
        live.begin(buffer);
    }
    Ok(())
}

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
