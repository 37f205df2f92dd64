//! First reusers: for each position, which position is the next to use its addresses.
//!
//! Invariant of the sweep: the positions that wait for a reuser are disjoint, because each new one removes those that it overlaps.

use crate::layout::{Buffer, Layout, Live};

/// For each position, the positions whose first reuser it is.
#[derive(Debug, Default)]
pub(super) struct FirstReusers {
    /// Where the list of each position begins in `positions`, and at last where the lists end.
    starts: Vec<u32>,
    positions: Vec<u32>,
}

impl FirstReusers {
    /// Computes the first reusers of a layout.
    pub(super) fn of(buffers: &[Buffer], layout: &Layout) -> FirstReusers {
        let reusers = first_reusers(buffers, layout);
        let mut starts = vec![0; reusers.len() + 1];
        reusers.iter().for_each(|&reuser| starts[reuser as usize + 1] += 1);
        (0..reusers.len()).for_each(|reuser| starts[reuser + 1] += starts[reuser]);
        let (mut next, mut positions) = (starts.clone(), vec![0; reusers.len()]);
        for (position, &reuser) in reusers.iter().enumerate() {
            positions[next[reuser as usize] as usize] = position as u32;
            next[reuser as usize] += 1;
        }
        FirstReusers { starts, positions }
    }

    /// The positions whose first reuser is this one.
    pub(super) fn before(&self, position: usize) -> &[u32] {
        &self.positions[self.starts[position] as usize..self.starts[position + 1] as usize]
    }

    /// Two of the positions that `before` returns. [`never_live`](FirstReusers::never_live) replaces missing ones. If there are more
    /// than two, [`always_live`](FirstReusers::always_live) stands for all but the first.
    pub(super) fn first_two(&self, position: usize) -> [u32; 2] {
        match *self.before(position) {
            [] => [self.never_live(); 2],
            [one] => [one, self.never_live()],
            [one, other] => [one, other],
            [one, ..] => [one, self.always_live()],
        }
    }

    /// The number behind those of the positions. It stands for a position that is never live.
    fn never_live(&self) -> u32 {
        self.positions.len() as u32
    }

    /// The number behind [`never_live`](FirstReusers::never_live). It stands for a position that is always live.
    pub(super) fn always_live(&self) -> u32 {
        self.never_live() + 1
    }
}

/// For each position of a layout, the next position that overlaps its addresses, in the circle of entries: the position itself in
/// the next entry, at the latest. A position without size has no reuser, and gets itself.
fn first_reusers(buffers: &[Buffer], layout: &Layout) -> Vec<u32> {
    let mut reusers: Vec<u32> = (0..buffers.len() as u32).collect();
    let mut waiting = Live::none_of(buffers, layout);
    for is_again in [false, true] {
        for position in (0..buffers.len()).filter(|&position| buffers[position].occupies()) {
            while let Some(other) = waiting.overlapping(position) {
                waiting.end(other);
                reusers[other] = position as u32;
            }
            // Whatever waits in the second entry is found by its own position, at the latest.
            if !is_again {
                waiting.begin(position);
            }
        }
    }
    reusers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A direct translation of the definition.
    fn naive(buffers: &[Buffer], layout: &Layout) -> Vec<u32> {
        let n = buffers.len();
        let range = |i: usize| layout.offsets[i]..layout.offsets[i] + buffers[i].size;
        let overlap = |i: usize, j: usize| range(i).start < range(j).end && range(j).start < range(i).end;
        let first = |i: usize| (i + 1..=i + n).map(|j| j % n).find(|&j| overlap(i, j)).unwrap_or(i);
        (0..n).map(|i| first(i) as u32).collect()
    }

    fn problem() -> impl Strategy<Value = Vec<Buffer>> {
        prop::collection::vec((1..30u32, 0..9u64), 1..30).prop_map(|lives| {
            let last = lives.len() as u32;
            let lives = (0..).zip(lives);
            lives.map(|(lower, (length, size))| Buffer { lower, upper: last.min(lower + length), size }).collect()
        })
    }

    proptest! {
        #[test]
        fn they_are_as_defined(buffers in problem()) {
            let layout = crate::layout::layout(&buffers).unwrap();
            let reusers = naive(&buffers, &layout);
            let known = FirstReusers::of(&buffers, &layout);
            for reuser in 0..buffers.len() {
                let before: Vec<u32> = (0..).zip(&reusers).filter(|&(_, &r)| r as usize == reuser).map(|(p, _)| p).collect();
                prop_assert_eq!(known.before(reuser), before);
            }
        }
    }
}
