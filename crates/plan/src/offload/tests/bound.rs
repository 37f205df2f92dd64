//! A lower bound on the bytes that have to move in an entry, computed by prices of memory.

use crate::offload::gaps::Gaps;
use crate::offload::keep;
use crate::offload::packing::Packing;
use crate::offload::prices::Prices;
use crate::offload::types::Order;

/// A lower bound on the bytes that move in and out in an entry within a budget, from prices after this many steps; `None` if
/// the arrays that are held at once do not fit.
pub(super) fn after_steps(order: &Order, budget: u64, steps: usize) -> Option<f64> {
    let gaps = Gaps::of(order);
    let packing = Packing::new(order, &gaps, budget)?;
    let saved = packing.saved_by(&keep::best(&packing));
    let mut prices = Prices::new(&packing);
    (0..steps).for_each(|_| prices.step(&packing, saved));
    let dead = gaps.all.iter().filter(|gap| gap.is_dead && gap.comes_in).map(|gap| order.bytes[gap.array as usize]);
    Some(packing.at_stake() as f64 - prices.bound + dead.sum::<u64>() as f64)
}
