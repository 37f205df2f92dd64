//! Proof of a layout: a sweep over time that keeps the live buffers sorted by offset and compares neighbours. Also the lower bound: no layout is lower than the largest sum of sizes alive at one time.
//!
//! While no two live buffers overlap, a new one can only overlap the live neighbour below or above it, so each start costs
//! two look-ups: O(n log n) in all.

use std::collections::BTreeMap;

use crate::layout::{Buffer, Layout, LayoutError};

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
    let occupying = (0..buffers.len()).filter(|&i| buffers[i].occupies());
    let mut highest = 0;
    let mut events: Vec<(u32, bool, usize)> = Vec::new();
    for i in occupying {
        let end = layout.offsets[i].checked_add(buffers[i].size).ok_or(LayoutError::PastEnd { buffer: i })?;
        highest = highest.max(end);
        events.push((buffers[i].lower, true, i));
        events.push((buffers[i].upper, false, i));
    }
    if highest != layout.height {
        return Err(LayoutError::Height { stated: layout.height, found: highest });
    }
    // At equal times, ends sort before starts, because lifetimes are half-open.
    events.sort_unstable();
    sweep(buffers, &layout.offsets, &events)
}

fn sweep(buffers: &[Buffer], offsets: &[u64], events: &[(u32, bool, usize)]) -> Result<(), LayoutError> {
    let mut live: BTreeMap<u64, usize> = BTreeMap::new();
    for &(_, starts, i) in events {
        let offset = offsets[i];
        if !starts {
            live.remove(&offset);
            continue;
        }
        if let Some((_, &above)) = live.range(offset..).next()
            && offsets[above] < offset + buffers[i].size
        {
            return Err(LayoutError::Overlap { first: i.min(above), second: i.max(above) });
        }
        if let Some((&start, &below)) = live.range(..offset).next_back()
            && start + buffers[below].size > offset
        {
            return Err(LayoutError::Overlap { first: i.min(below), second: i.max(below) });
        }
        live.insert(offset, i);
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
