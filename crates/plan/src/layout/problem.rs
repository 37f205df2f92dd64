//! The problem in compressed form: time becomes sections, and only buffers that occupy memory stay.
//!
//! A section is a maximal set of buffers that are alive together. Two lifetimes overlap exactly if they share a section, because
//! pairwise overlapping intervals share a point. So sections lose nothing, and passes over time get shorter.
//!
//! Invariants: items are sorted by `lower`. Each item has `lower < upper <= loads.len()` and a size above 0. The sum of all
//! sizes is at most 2^62. So is every offset and height of a layout in which each buffer rests on the ground or on another
//! buffer.

use crate::layout::{Buffer, TooLarge, sort};

/// The largest sum of sizes. Below it, differences of heights, and sums of such differences with sizes, fit `i64`.
pub(super) const LARGEST_SUM: u64 = 1 << 62;

/// A buffer in compressed time: `lower` is the first section it lives in, `upper` is one past the last, and `size` is above zero.
pub(super) type Item = Buffer;

impl Buffer {
    pub(super) fn duration(&self) -> u64 {
        u64::from(self.upper - self.lower)
    }

    #[cfg(feature = "exact")]
    pub(super) fn sections(&self) -> std::ops::Range<usize> {
        self.lower as usize..self.upper as usize
    }
}

/// Items, their loads, and the mapping back to the caller's buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct Problem {
    pub items: Vec<Item>,
    /// Bytes alive in each section.
    pub loads: Vec<u64>,
    /// The lower bound: the largest load.
    pub bound: u64,
    /// The greatest common divisor of the sizes. All heights are multiples of it.
    pub grain: u64,
    /// Index in the caller's slice, per item.
    source: Vec<u32>,
    /// Length of the caller's slice.
    len: usize,
}

impl Problem {
    pub(super) fn new(buffers: &[Buffer]) -> Result<Self, TooLarge> {
        let live: Vec<u32> = (0u32..).zip(buffers).filter(|(_, b)| b.occupies()).map(|(i, _)| i).collect();
        let total = live.iter().try_fold(0u64, |sum, &i| sum.checked_add(buffers[i as usize].size));
        if total.is_none_or(|t| t > LARGEST_SUM) || u32::try_from(buffers.len()).is_err() {
            return Err(TooLarge { buffers: buffers.len() });
        }
        let (items, source) = compress(buffers, &live);
        let loads = loads(&items);
        let bound = loads.iter().copied().max().unwrap_or(0);
        let grain = items.iter().fold(0, |grain, i| gcd(i.size, grain)).max(1);
        Ok(Self { items, loads, bound, grain, source, len: buffers.len() })
    }

    /// Converts offsets per item to offsets per caller's buffer; buffers without memory get 0.
    pub(super) fn expand(&self, offsets: &[u64]) -> Vec<u64> {
        let mut out = vec![0; self.len];
        for (&source, &offset) in self.source.iter().zip(offsets) {
            out[source as usize] = offset;
        }
        out
    }

    /// Converts offsets per caller's buffer to offsets per item. `None` if there are not as many as buffers.
    pub(super) fn shrink(&self, offsets: &[u64]) -> Option<Vec<u64>> {
        (offsets.len() == self.len).then(|| self.source.iter().map(|&i| offsets[i as usize]).collect())
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Items in order, and the caller's index of each.
///
/// A section opens at the first start after an end. Each set alive between two such starts is a part of the set alive just
/// before the first end.
fn compress(buffers: &[Buffer], live: &[u32]) -> (Vec<Item>, Vec<u32>) {
    let column = |of: fn(&Buffer) -> u32| live.iter().map(move |&i| of(&buffers[i as usize]).into());
    let starts: Vec<u64> = column(|b| b.lower).collect();
    let ends: Vec<u64> = column(|b| b.upper).collect();
    let (by_start, by_end) = (sort::ascending(&starts), sort::ascending(&ends));
    let (mut lower, mut upper) = (vec![0; live.len()], vec![0; live.len()]);
    let (mut opened, mut ended) = (0, true);
    let mut end = by_end.into_iter().peekable();
    for &at in &by_start {
        while let Some(e) = end.next_if(|&e| ends[e as usize] <= starts[at as usize]) {
            upper[e as usize] = opened;
            ended = true;
        }
        opened += u32::from(ended);
        ended = false;
        lower[at as usize] = opened - 1;
    }
    end.for_each(|e| upper[e as usize] = opened);
    let source: Vec<u32> = by_start.iter().map(|&at| live[at as usize]).collect();
    let item = |(&at, &i): (&u32, &u32)| Item {
        lower: lower[at as usize],
        upper: upper[at as usize],
        size: buffers[i as usize].size,
    };
    (by_start.iter().zip(&source).map(item).collect(), source)
}

fn loads(items: &[Item]) -> Vec<u64> {
    let sections = items.iter().map(|i| i.upper as usize).max().unwrap_or(0);
    let (mut start, mut end) = (vec![0u64; sections], vec![0u64; sections]);
    for item in items {
        start[item.lower as usize] += item.size;
        end[item.upper as usize - 1] += item.size;
    }
    let mut load = 0;
    let step = |(s, e): (&u64, &u64)| {
        let here = load + s;
        load = here - e;
        here
    };
    start.iter().zip(&end).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn compression_keeps_overlaps_and_the_bound(raw in prop::collection::vec((0u32..40, 0u32..20, 0u64..9), 0..60)) {
            let buffer = |(lower, duration, size)| Buffer { lower, upper: lower + duration, size };
            let buffers: Vec<Buffer> = raw.into_iter().map(buffer).collect();
            let problem = Problem::new(&buffers).unwrap();
            prop_assert_eq!(problem.bound, crate::layout::lower_bound(&buffers));
            prop_assert!(problem.items.is_sorted_by_key(|i| i.lower));
            for (a, &i) in problem.items.iter().zip(&problem.source) {
                for (b, &j) in problem.items.iter().zip(&problem.source) {
                    let (x, y) = (buffers[i as usize], buffers[j as usize]);
                    let meet = x.lower < y.upper && y.lower < x.upper;
                    prop_assert_eq!(a.lower < b.upper && b.lower < a.upper, meet);
                }
            }
        }
    }
}
