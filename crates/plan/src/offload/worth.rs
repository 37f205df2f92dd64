//! What it is worth to stay in a gap, where bytes alone do not tell: a copy takes calls besides its bytes, and work hides those of long gaps.
//!
//! An array that goes shortly before it is used again comes back late: the device waits for its write-back, and then for its copy. At the
//! point where most is alive any bytes may go, and those that are not needed for long cost nothing.

use super::gaps::Gaps;
use super::packing::Packing;
use super::types::{Link, Order};

/// The shortest gap that counts as such, as a part of the time of its copies.
const SHORTEST: f64 = 0.01;

impl Packing {
    /// Has gaps be worth more the shorter they are beside the time of their copies.
    pub(super) fn weigh(&mut self, order: &Order, gaps: &Gaps, link: Link) {
        let factors: Vec<f64> = (0..gaps.all.len()).map(|gap| factor(order, gaps, link, gap)).collect();
        let price = |array: u32| order.bytes[array as usize] as f64 + link.latency * link.bytes_per_second;
        for (number, gap) in gaps.all.iter().enumerate() {
            let item = &mut self.items[number];
            if item.worth > 0 {
                item.worth = (price(gap.array) * factors[number]) as u64;
            }
        }
        for group in self.groups.iter_mut().filter(|group| group.worth > 0) {
            // The write-back is needed if any of them goes: the longest, most likely.
            let least = group.items.iter().map(|&item| factors[item as usize]).fold(f64::INFINITY, f64::min);
            if let Some(&first) = group.items.first() {
                group.worth = (price(gaps.all[first as usize].array) * least) as u64;
            }
        }
    }
}

/// How many times its bytes a gap is worth.
fn factor(order: &Order, gaps: &Gaps, link: Link, number: usize) -> f64 {
    let gap = &gaps.all[number];
    let at = |place: u32| order.at.get(place as usize).copied().unwrap_or(order.length);
    let between = at(gap.to) - at(gap.from);
    let time = if gap.from > gap.to { between + order.length } else { between };
    let copies = 1.0 + f64::from(u8::from(gaps.run_of[number].is_some()));
    let takes = copies * link.seconds(order.bytes[gap.array as usize]);
    1.0 + takes / time.max(takes * SHORTEST).max(f64::MIN_POSITIVE)
}
