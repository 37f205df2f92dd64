//! The fewest bytes that have to move: exactly by trying everything, or a lower bound for any size.

use super::bound;
use crate::offload::Order;
use crate::offload::gaps::{Gaps, add};

struct Search<'a> {
    order: &'a Order,
    gaps: &'a Gaps,
    budget: u64,
    kept: Vec<bool>,
    fewest: u64,
}

/// Bytes in and out given the gaps decided so far; undecided gaps cost nothing yet.
fn moved(order: &Order, gaps: &Gaps, kept: &[bool]) -> u64 {
    let goes = |gap: usize| gap < kept.len() && !kept[gap];
    let bytes = |gap: usize| order.bytes[gaps.all[gap].array as usize];
    let inward: u64 = (0..kept.len()).filter(|&gap| goes(gap) && gaps.all[gap].comes_in).map(bytes).sum();
    let written = gaps.runs.iter().filter_map(|run| run.gaps.iter().find(|&&gap| goes(gap as usize)));
    inward + written.map(|&gap| bytes(gap as usize)).sum::<u64>()
}

impl Search<'_> {
    fn go(&mut self, load: &mut Vec<u64>) {
        let so_far = moved(self.order, self.gaps, &self.kept);
        if so_far >= self.fewest {
            return;
        }
        let Some(gap) = self.gaps.all.get(self.kept.len()) else {
            self.fewest = so_far;
            return;
        };
        let mut with = load.clone();
        add(&mut with, gap.from, gap.to, self.order.bytes[gap.array as usize]);
        if !gap.is_dead && with.iter().all(|&load| load <= self.budget) {
            self.kept.push(true);
            self.go(&mut with);
            self.kept.pop();
        }
        self.kept.push(false);
        self.go(load);
        self.kept.pop();
    }
}

/// The fewest bytes that move in and out in an entry of the circle.
pub(super) fn optimum(order: &Order, budget: u64) -> u64 {
    let gaps = Gaps::of(order);
    let mut search = Search { order, gaps: &gaps, budget, kept: Vec::new(), fewest: u64::MAX };
    search.go(&mut gaps.held.clone());
    search.fewest
}

/// A lower bound on the bytes that move, from prices of memory after thousands of steps.
pub(super) fn lower_bound(order: &Order, budget: u64) -> f64 {
    bound::after_steps(order, budget, 3000).unwrap()
}
