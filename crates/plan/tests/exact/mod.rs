//! An exact solver for a handful of buffers, and strategies for random ones.
#![allow(dead_code)]

use gpucache_plan::Buffer;
use proptest::prelude::*;

/// The lowest height: tries every order of placing each buffer at its lowest free offset.
///
/// One order leads to an optimal layout: the order of the offsets in it. Placed in this order, no buffer lies higher than in that layout.
pub(crate) fn optimum(buffers: &[Buffer]) -> u64 {
    let mut live: Vec<Buffer> = buffers.iter().copied().filter(|b| b.size > 0 && b.lower < b.upper).collect();
    let mut best = live.iter().map(|b| b.size).sum();
    branch(&mut live, 0, &mut Vec::new(), 0, &mut best);
    best
}

fn branch(rest: &mut Vec<Buffer>, from: usize, placed: &mut Vec<(Buffer, u64)>, height: u64, best: &mut u64) {
    if height >= *best && !rest.is_empty() {
        return;
    }
    if from == rest.len() {
        *best = height.min(*best);
        return;
    }
    for next in from..rest.len() {
        rest.swap(from, next);
        let buffer = rest[from];
        let offset = lowest(buffer, placed);
        placed.push((buffer, offset));
        branch(rest, from + 1, placed, height.max(offset + buffer.size), best);
        placed.pop();
        rest.swap(from, next);
    }
}

/// The lowest offset at which the buffer overlaps with no placed buffer.
fn lowest(buffer: Buffer, placed: &[(Buffer, u64)]) -> u64 {
    let overlaps = |b: &Buffer| b.lower < buffer.upper && buffer.lower < b.upper;
    let mut spans: Vec<(u64, u64)> =
        placed.iter().filter(|(b, _)| overlaps(b)).map(|&(b, offset)| (offset, offset + b.size)).collect();
    spans.sort_unstable();
    let free = |at: u64, &(start, end): &(u64, u64)| if at + buffer.size <= start { Err(at) } else { Ok(at.max(end)) };
    spans.iter().try_fold(0, free).unwrap_or_else(|at| at)
}

/// Up to `most` buffers with crowded lifetimes; a few of them occupy nothing.
pub(crate) fn buffers(most: usize, times: u32, sizes: u64) -> impl Strategy<Value = Vec<Buffer>> {
    let buffer = (0..times, 0..=times / 2, 0..=sizes).prop_map(|(lower, duration, size)| Buffer {
        lower,
        upper: lower + duration,
        size,
    });
    prop::collection::vec(buffer, 0..=most)
}
