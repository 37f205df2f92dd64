//! Layouts of which the first offsets are given: the rest is placed around them.
//!
//! Each buffer goes into the smallest gap, in the stretch of addresses that is free for its whole life. The largest buffers come first. Where
//! that is not as low as possible, those with the most bytes times life come first.

use crate::layout::{Buffer, Layout, check, lower_bound};

/// More buffers are not placed one by one, since each is compared with all before: both orders of 3,300 random buffers take 18 ms, and of 8,192
/// buffers 107 ms (Xeon).
const MOST: usize = 1 << 13;
/// The same for buffers that are placed beside many given ones: as many comparisons as 8,192 buffers take by themselves.
const MOST_COMPARED: usize = MOST * MOST;

/// An offset, and the buffer that lies there.
type Placed = (u64, Buffer);

impl Layout {
    /// Lays out buffers of which the first ones have these offsets, in the order of their lives. `None` if these buffers overlap each other, if there
    /// are more than 8,192 other ones, or if an end would pass 2^64.
    ///
    /// ```
    /// use gpucache_plan::{Buffer, Layout, check};
    ///
    /// // The first two lie at 4 and 0. The third one is alive together with the second one.
    /// let buffers = [
    ///     Buffer { lower: 0, upper: 2, size: 4 },
    ///     Buffer { lower: 1, upper: 4, size: 4 },
    ///     Buffer { lower: 2, upper: 4, size: 3 },
    /// ];
    /// let found = Layout::extend(&buffers, &[4, 0]).unwrap();
    /// assert_eq!((found.offsets, found.height), (vec![4, 0, 4], 8));
    /// assert_eq!(Layout::extend(&buffers, &[0, 0]), None); // both are alive at time 1
    /// ```
    pub fn extend(buffers: &[Buffer], offsets: &[u64]) -> Option<Layout> {
        let given = offsets.len();
        let others: Vec<usize> = (given..buffers.len()).filter(|&other| buffers[other].occupies()).collect();
        if others.len() > MOST {
            return None;
        }
        let given = offsets.iter().copied().zip(buffers.iter().copied());
        let start: Vec<Placed> =
            given.filter(|(at, given)| given.occupies() && at.checked_add(given.size).is_some()).collect();
        let first = start.iter().map(end).max().unwrap_or(0);
        let bound = lower_bound(buffers).max(first);
        let size = |buffer: &Buffer| u128::from(buffer.size);
        let area = |buffer: &Buffer| size(buffer) * u128::from(buffer.upper - buffer.lower);
        let mut best: Option<Layout> = None;
        for weigh in [&size as &dyn Fn(&Buffer) -> u128, &area] {
            let mut order = others.clone();
            order.sort_by_key(|&other| (std::cmp::Reverse(weigh(&buffers[other])), other));
            let found = place(buffers, offsets, &order, start.clone())?;
            if best.as_ref().is_none_or(|best| found.height < best.height) {
                best = Some(found);
            }
            if best.as_ref().is_some_and(|best| best.height <= bound) {
                break;
            }
        }
        best.filter(|best| check(buffers, best).is_ok())
    }
}

/// Places buffers in this order. `None` if an offset would pass 2^64.
fn place(buffers: &[Buffer], offsets: &[u64], order: &[usize], mut placed: Vec<Placed>) -> Option<Layout> {
    let mut all = offsets.to_vec();
    all.resize(buffers.len(), 0);
    // Those that are alive in the rest alone can be in the way.
    let rest = order.iter().map(|&other| buffers[other].lower).min().unwrap_or(u32::MAX);
    let mut height = placed.iter().map(end).max().unwrap_or(0);
    placed.retain(|(_, placed)| placed.upper > rest);
    placed.sort_unstable_by_key(|&(start, _)| start);
    if order.len().saturating_mul(order.len() + placed.len()) > MOST_COMPARED {
        return None;
    }
    for &other in order {
        let buffer = &buffers[other];
        let offset = smallest_gap(&placed, buffer);
        height = height.max(offset.checked_add(buffer.size)?);
        all[other] = offset;
        let behind = placed.partition_point(|&(start, _)| start < offset);
        placed.insert(behind, (offset, *buffer));
    }
    Some(Layout { offsets: all, height })
}

/// The offset of the smallest gap that is large enough, between those that are alive at the same time as the buffer; above them if there is none.
fn smallest_gap(placed: &[Placed], buffer: &Buffer) -> u64 {
    let (mut top, mut smallest) = (0, None);
    for other in placed.iter().filter(|(_, other)| other.lower < buffer.upper && buffer.lower < other.upper) {
        let gap = other.0.saturating_sub(top);
        if gap >= buffer.size && smallest.is_none_or(|(smallest, _)| gap < smallest) {
            smallest = Some((gap, top));
        }
        top = top.max(end(other));
    }
    smallest.map_or(top, |(_, offset)| offset)
}

/// Where a buffer ends. It was checked to be below 2^64.
fn end(&(start, buffer): &Placed) -> u64 {
    start + buffer.size
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layout::layout;

    fn problem() -> impl Strategy<Value = Vec<Buffer>> {
        prop::collection::vec((1..20u32, 0..9u64), 1..40).prop_map(|lives| {
            let last = lives.len() as u32;
            (0..)
                .zip(lives)
                .map(|(lower, (length, size))| Buffer { lower, upper: last.min(lower + length), size })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn the_given_offsets_stay(buffers in problem(), given in 0..40usize) {
            let given = given.min(buffers.len());
            let whole = layout(&buffers).unwrap();
            let found = Layout::extend(&buffers, &whole.offsets[..given]).unwrap();
            prop_assert_eq!(&found.offsets[..given], &whole.offsets[..given]);
            prop_assert_eq!(check(&buffers, &found), Ok(()));
            // Each of the others is laid on top at worst.
            let given = buffers.iter().zip(&whole.offsets[..given]).map(|(buffer, offset)| offset + buffer.size);
            let others = &buffers[given.len()..];
            let highest = given.max().unwrap_or(0);
            prop_assert!(found.height <= highest + others.iter().map(|buffer| buffer.size).sum::<u64>());
        }

        #[test]
        fn without_given_offsets_it_is_hardly_higher_than_the_solver(buffers in problem()) {
            let (whole, found) = (layout(&buffers).unwrap(), Layout::extend(&buffers, &[]).unwrap());
            prop_assert!(found.height <= whole.height * 2, "{} {}", found.height, whole.height);
        }
    }

    #[test]
    fn offsets_at_the_end_of_the_addresses_are_refused() {
        let buffers = [Buffer { lower: 0, upper: 2, size: 1 << 40 }, Buffer { lower: 1, upper: 2, size: 1 << 40 }];
        assert_eq!(Layout::extend(&buffers, &[u64::MAX - 5]), None);
        assert_eq!(Layout::extend(&buffers, &[u64::MAX - (1 << 40)]).map(|found| found.offsets[1]), Some(0));
    }
}
