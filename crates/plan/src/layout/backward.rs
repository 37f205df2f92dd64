//! Best fit backwards in time: the buffer that dies last is placed first. Each goes into the smallest free stretch that it fits.
//!
//! Some arrays are replaced by longer ones; a cache of keys and values is, with each token of an answer. The arrays before
//! leave free stretches that are too short for every later array, and skyline passes stack them: 1.05 times the bound for 24 layers and 512
//! tokens. Backwards in time, each array is replaced by a shorter one, which fits into the same stretch: 1.0000 times the bound, in
//! 0.2 us per buffer.
//!
//! Invariants: free stretches lie below `top`, and no two of them touch each other or `top`.

use std::collections::{BTreeMap, BTreeSet};

use crate::layout::problem::{Item, Problem};
use crate::layout::sort;

/// The state of a pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Backward {
    /// The items in order of placement: the item that dies last comes first.
    order: Vec<u32>,
    /// How many items of `order` are placed.
    placed: usize,
    /// The items before this index are alive at the current time or not yet placed; the others are freed.
    alive: usize,
    /// Free stretches: sizes by offset, and pairs of size and offset.
    by_offset: BTreeMap<u64, u64>,
    by_bytes: BTreeSet<(u64, u64)>,
    /// The end of the highest live item.
    top: u64,
    height: u64,
    /// The offset of each item.
    pub(super) offsets: Vec<u64>,
}

/// Items placed between two calls of `stop`: about 20 us.
const ITEMS_PER_QUESTION: usize = 64;

impl Backward {
    pub(super) fn new(problem: &Problem) -> Backward {
        let items = &problem.items;
        let descending = |of: &dyn Fn(&Item) -> u64| -> Vec<u64> { items.iter().map(|item| !of(item)).collect() };
        let by_size = sort::ascending(&descending(&|item| item.size));
        let order = sort::refine(by_size, &descending(&|item| item.upper.into()));
        Backward { order, alive: items.len(), offsets: vec![0; items.len()], ..Backward::default() }
    }

    /// Continues until the pass ends or `stop` returns true. Returns the height once the pass has ended.
    pub(super) fn advance(&mut self, problem: &Problem, stop: &mut dyn FnMut() -> bool) -> Option<u64> {
        loop {
            for _ in 0..ITEMS_PER_QUESTION {
                let Some(&id) = self.order.get(self.placed) else { return Some(self.height) };
                let item = problem.items[id as usize];
                self.free_from(problem, item.upper);
                self.offsets[id as usize] = self.place(item.size);
                self.placed += 1;
            }
            if stop() {
                return None;
            }
        }
    }

    /// Frees the items that begin in this section or later. All of them are placed already.
    fn free_from(&mut self, problem: &Problem, section: u32) {
        while let Some(id) = self.alive.checked_sub(1)
            && problem.items[id].lower >= section
        {
            self.alive = id;
            self.free(self.offsets[id], problem.items[id].size);
        }
    }

    fn place(&mut self, bytes: u64) -> u64 {
        let found = self.by_bytes.range((bytes, 0)..).next().copied();
        match found {
            Some((free, offset)) => {
                self.take(offset, free);
                self.put(offset + bytes, free - bytes);
                offset
            }
            None => {
                self.top += bytes;
                self.height = self.height.max(self.top);
                self.top - bytes
            }
        }
    }

    fn free(&mut self, offset: u64, bytes: u64) {
        let (mut start, mut end) = (offset, offset + bytes);
        if let Some((&before, &free)) = self.by_offset.range(..offset).next_back()
            && before + free == offset
        {
            self.take(before, free);
            start = before;
        }
        if let Some(&free) = self.by_offset.get(&end) {
            self.take(end, free);
            end += free;
        }
        if end == self.top {
            self.top = start;
        } else {
            self.put(start, end - start);
        }
    }

    fn put(&mut self, offset: u64, bytes: u64) {
        if bytes > 0 {
            self.by_offset.insert(offset, bytes);
            self.by_bytes.insert((bytes, offset));
        }
    }

    fn take(&mut self, offset: u64, bytes: u64) {
        self.by_offset.remove(&offset);
        self.by_bytes.remove(&(bytes, offset));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Backward;
    use crate::layout::problem::Problem;
    use crate::layout::{Buffer, Layout, check};

    fn laid_out(buffers: &[Buffer]) -> (Layout, u64) {
        let problem = Problem::new(buffers).unwrap();
        let mut pass = Backward::new(&problem);
        let mut height = None;
        while height.is_none() {
            height = pass.advance(&problem, &mut || true);
        }
        (Layout { offsets: problem.expand(&pass.offsets), height: height.unwrap() }, problem.bound)
    }

    #[test]
    fn arrays_that_are_replaced_by_longer_ones_meet_the_bound() {
        let halves = 48;
        let mut buffers = Vec::new();
        for token in 0..64 {
            for half in 0..halves {
                let lower = token * halves + half;
                // The next array of this half is born before this one dies.
                let upper = (lower + halves + 1).min(64 * halves);
                buffers.push(Buffer { lower, upper, size: 256 * u64::from(3 + token) });
            }
        }
        let (layout, bound) = laid_out(&buffers);
        assert_eq!((check(&buffers, &layout), layout.height), (Ok(()), bound));
    }

    proptest! {
        #[test]
        fn layouts_hold(lives in prop::collection::vec((0u32..40, 1u32..20, 0u64..2000), 0..60)) {
            let buffers: Vec<_> =
                lives.into_iter().map(|(lower, length, size)| Buffer { lower, upper: lower + length, size }).collect();
            let (layout, bound) = laid_out(&buffers);
            prop_assert_eq!(check(&buffers, &layout), Ok(()));
            prop_assert!(layout.height >= bound);
        }
    }
}
