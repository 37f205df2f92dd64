//! The fast portfolio: orders in which a skyline pass prefers items. One pass with one of these orders often meets the bound.

use crate::layout::problem::Problem;
use crate::layout::sort;

/// How many orders there are.
pub(super) const ORDERS: usize = 4;

/// The items in the order of a pass. Ties keep their order.
pub(super) fn order(problem: &Problem, pass: usize, peaks: &[u64]) -> Vec<u32> {
    let descending = |of: &dyn Fn(usize) -> u64| -> Vec<u64> { (0..problem.items.len()).map(|i| !of(i)).collect() };
    let duration = descending(&|i| problem.items[i].duration());
    let size = descending(&|i| problem.items[i].size);
    match pass {
        // Long-lived first, then large. Lines stay wide. This order meets the bound on most recorded programs.
        0 => sort::refine(sort::ascending(&size), &duration),
        // Items that cross the highest load first, then large. The fullest sections waste the least.
        1 => sort::refine(sort::ascending(&size), &descending(&|i| peaks[i])),
        // Large first, then long-lived.
        2 => sort::refine(sort::ascending(&duration), &size),
        // Size times duration.
        _ => sort::ascending(&descending(&|i| problem.items[i].size.saturating_mul(problem.items[i].duration()))),
    }
}

/// The highest load that each item crosses.
pub(super) fn peaks(problem: &Problem) -> Vec<u64> {
    let sections = problem.loads.len();
    let mut tree = vec![0; sections];
    tree.extend(&problem.loads);
    for node in (1..sections).rev() {
        tree[node] = tree[2 * node].max(tree[2 * node + 1]);
    }
    let peak = |lower: u32, upper: u32| {
        let (mut left, mut right) = (lower as usize + sections, upper as usize + sections);
        let mut peak = 0;
        while left < right {
            if left & 1 == 1 {
                peak = peak.max(tree[left]);
                left += 1;
            }
            if right & 1 == 1 {
                right -= 1;
                peak = peak.max(tree[right]);
            }
            left /= 2;
            right /= 2;
        }
        peak
    };
    problem.items.iter().map(|i| peak(i.lower, i.upper)).collect()
}
