//! Delays prefetches: each array comes as late as its use and the link allow.
//!
//! `early` prefetches as soon as there is memory. Nothing is gained if an array comes long before its use, but it then needs an address for
//! longer, and offsets for all arrays together become higher. In a GPT's step in 0.6 of its memory, offsets need 1.04 times the bytes of the
//! fullest place without delays, and 1.00 times with them.

use super::early::Times;
use super::gaps::Gaps;
use super::machine::Reached;
use super::types::{Link, Order};

/// An array arrives before its use by as much as this many of the longest copies take. Work may be faster than expected, and the link
/// slower. With one, a GPT's step whose work was 10% faster took 2% longer; with two, as long as without delays.
const AHEAD: f64 = 2.0;

impl Times {
    /// Delays the prefetches of an entry whose places are reached at these times.
    pub(super) fn delay(&mut self, order: &Order, gaps: &Gaps, kept: &[bool], (link, reached): (Link, &Reached)) {
        let comes = |&gap: &u32| !kept[gap as usize] && gaps.all[gap as usize].comes_in && self.goes(gaps, gap);
        let mut coming: Vec<u32> = (0..gaps.all.len() as u32).filter(comes).collect();
        coming.sort_unstable_by_key(|&gap| std::cmp::Reverse(gaps.all[gap as usize].to));
        let bytes = coming.iter().map(|&gap| order.bytes[gaps.all[gap as usize].array as usize]);
        let ahead = AHEAD * link.seconds(bytes.max().unwrap_or(0));
        // The link is busy from then on. The entry repeats, so its end is known once its beginning is.
        let mut busy = f64::INFINITY;
        for is_known in [false, true] {
            for &gap in &coming {
                let each = &gaps.all[gap as usize];
                let whole = gaps.distance(each.from, each.to);
                let before = if each.from + whole >= gaps.places() { reached.seconds } else { 0.0 };
                let at = |distance: u32| reached.at(each.from + distance) - before;
                let copy = link.seconds(order.bytes[each.array as usize]);
                let come = self.come[gap as usize];
                busy = ((at(whole) - ahead).min(busy) - copy).max(at(come));
                if is_known {
                    self.come[gap as usize] = last_until(busy, (come, whole), at);
                }
            }
            busy += reached.seconds;
        }
    }
}

/// The largest distance whose time is not after `time`; the first one if all are.
fn last_until(time: f64, (first, last): (u32, u32), at: impl Fn(u32) -> f64) -> u32 {
    let (mut low, mut high) = (first, last);
    while low < high {
        let middle = high - (high - low) / 2;
        if at(middle) <= time {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use crate::offload::{Access, Link, Order, Use, What};

    #[test]
    fn an_array_comes_shortly_before_its_use() {
        // The room is for one of two arrays. The second one leaves after its only use. The first one is used again at the entry's end.
        let array = |place| match place {
            0 | 29 => 0,
            1 => 1,
            _ => 2,
        };
        let uses = (0..30).map(|place| Use { array: array(place), access: Access::Read, until: place + 1 });
        let at = (0..30).map(f64::from).collect();
        let (dies, rests) = (vec![false; 3], Vec::new());
        let order = Order { bytes: vec![8, 8, 0], uses: uses.collect(), at, length: 30.0, dies, rests };
        let found = order.schedule(8, Link { bytes_per_second: 8.0, latency: 0.0 }).unwrap();
        assert_eq!(found.seconds, 31.0, "the work waits for the second array only");
        let comes = |array| found.moves.iter().find(|each| each.array == array && each.what == What::Prefetch).unwrap();
        assert_eq!(comes(0).before, 26, "a copy and twice the longest copy before the use");
    }
}
