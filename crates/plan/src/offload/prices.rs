//! Prices of memory: the cost of a byte at each point, such that the gaps that pay these prices are about those that fit.
//!
//! This is the Lagrangian relaxation of the packing. At given prices each group keeps the gaps that are worth more than their memory
//! costs, independently of other groups. This yields an upper bound on the bytes that any packing saves. Prices rise where too much
//! would stay and fall where memory is left, by subgradient steps of Polyak's length (Held, Wolfe and Crowder 1974).

use super::packing::{Choice, Group, Packing};

/// The number of steps without a better bound after which steps become shorter.
const STEPS_WITHOUT_BETTER_BOUND: u32 = 20;
/// The factor by which steps become shorter.
const SHORTER: f64 = 0.9;

pub(super) struct Prices {
    /// For each point.
    price: Vec<f64>,
    /// The sum of the prices before each point, and at last the sum of all.
    sums: Vec<f64>,
    /// The current fraction of Polyak's step.
    share: f64,
    waited: u32,
    /// The lowest known upper bound on the bytes that any packing saves.
    pub(super) bound: f64,
}

impl Prices {
    /// The initial prices: the best of several guesses. Either a byte costs one or two copies at the fullest point alone. Or a byte
    /// has one price at all points that are too full, which is a copy divided by some number of points.
    pub(super) fn new(packing: &Packing) -> Prices {
        let points = packing.room.len();
        let bound = packing.at_stake() as f64;
        let mut prices = Prices { price: vec![0.0; points], sums: vec![0.0; points + 1], share: 1.0, waited: 0, bound };
        let left = prices.relax(packing).0;
        let Some(peak) = (0..points).min_by(|&a, &b| left[a].total_cmp(&left[b])) else { return prices };
        let at_peak = [1.0, 2.0].map(|price| (price, true));
        let everywhere = (1..=points.ilog2() * 2).map(|half| (0.5f64.powf(0.5 * f64::from(half)), false));
        let mut best = (0.0, true);
        for (price, only_peak) in at_peak.into_iter().chain(everywhere) {
            prices.begin(price, |point| if only_peak { point == peak } else { left[point] < 0.0 });
            let bound = prices.relax(packing).1;
            if bound < prices.bound {
                (prices.bound, best) = (bound, (price, only_peak));
            }
        }
        prices.begin(best.0, |point| if best.1 { point == peak } else { left[point] < 0.0 });
        prices
    }

    fn begin(&mut self, price: f64, at: impl Fn(usize) -> bool) {
        self.set(|point, _| if at(point) { price } else { 0.0 });
    }

    fn set(&mut self, price: impl Fn(usize, f64) -> f64) {
        for point in 0..self.price.len() {
            self.price[point] = price(point, self.price[point]);
            self.sums[point + 1] = self.sums[point] + self.price[point];
        }
    }

    /// The cost of an item's memory.
    pub(super) fn cost(&self, packing: &Packing, item: &Choice) -> f64 {
        let sums = packing.points(item).map(|points| self.sums[points.end] - self.sums[points.start]);
        item.bytes as f64 * (sums[0] + sums[1])
    }

    /// The most that a group gains at these prices, and whether it gains this by staying as a whole. Otherwise only items that are worth
    /// more than their memory stay.
    fn gain(&self, packing: &Packing, group: &Group) -> (f64, bool) {
        let mut each = 0.0;
        let mut all = group.worth as f64;
        for &item in &group.items {
            let item = &packing.items[item as usize];
            let gain = item.worth as f64 - self.cost(packing, item);
            each += gain.max(0.0);
            all += gain;
        }
        (all.max(each), all >= each)
    }

    /// Takes one step towards better prices. `saved` is the number of bytes that a known packing saves.
    pub(super) fn step(&mut self, packing: &Packing, saved: u64) {
        let (left, bound) = self.relax(packing);
        self.waited += 1;
        if bound < self.bound {
            (self.bound, self.waited) = (bound, 0);
        } else if self.waited >= STEPS_WITHOUT_BETTER_BOUND {
            (self.share, self.waited) = (self.share * SHORTER, 0);
        }
        let counts = |&(left, price): &(&f64, &f64)| *left < 0.0 || *price > 0.0;
        let norm: f64 = left.iter().zip(&self.price).filter(counts).map(|(left, _)| left * left).sum();
        if norm > 0.0 {
            let step = self.share * (bound - saved as f64) / norm;
            self.set(|point, price| (price - step * left[point]).max(0.0));
        }
    }

    /// The memory that is left at each point if each group makes its best choice at these prices, and the upper bound that follows.
    fn relax(&self, packing: &Packing) -> (Vec<f64>, f64) {
        let mut left: Vec<f64> = packing.room.iter().map(|&room| room as f64).collect();
        let mut changes = vec![0.0; left.len() + 1];
        let mut bound: f64 = left.iter().zip(&self.price).map(|(room, price)| room * price).sum();
        for group in &packing.groups {
            let (gain, is_whole) = self.gain(packing, group);
            bound += gain;
            for &item in &group.items {
                let item = &packing.items[item as usize];
                if is_whole || item.worth as f64 > self.cost(packing, item) {
                    for points in packing.points(item) {
                        changes[points.start] += item.bytes as f64;
                        changes[points.end] -= item.bytes as f64;
                    }
                }
            }
        }
        let mut used = 0.0;
        for (left, change) in left.iter_mut().zip(&changes) {
            used += change;
            *left -= used;
        }
        (left, bound)
    }
}
