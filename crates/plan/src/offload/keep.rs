//! The gaps to stay in: of all that fit those that save the most bytes, as nearly as can be found in time.
//!
//! At good prices of room (`prices`) what is worth most for its room goes first, runs as a whole before their parts. Then gaps that
//! do not stay are tried once more, in the place of such that save less.

use super::packing::{NO_GROUP, Packing};
use super::prices::Prices;

/// Steps of the prices, and of these between two fillings.
const STEPS: usize = 80;
const STEPS_BETWEEN: usize = 27;
/// Times that all gaps are tried once more, and gaps that are looked at for that in all, which bounds the time it takes.
const ROUNDS: usize = 3;
const LOOKED_AT: usize = 200_000;
/// What is near enough to the bound: bytes that move for each that has to.
const ENOUGH: f64 = 1.001;

/// Some gaps, and the room that they leave.
#[derive(Clone, Debug)]
pub(super) struct Keep {
    /// By gap: whether it is stayed in.
    pub(super) kept: Vec<bool>,
    /// By point: room that is left.
    left: Vec<u64>,
    /// Bytes that do not move.
    pub(super) saved: u64,
}

impl Keep {
    /// The best that is found.
    pub(super) fn best(packing: &Packing) -> Keep {
        let mut prices = Prices::new(packing);
        let mut best = Keep::filled(packing, &prices);
        for step in 1..=STEPS {
            if best.is_enough(packing, &prices) {
                return best;
            }
            prices.step(packing, best.saved);
            if step % STEPS_BETWEEN == 0 {
                let found = Keep::filled(packing, &prices);
                if found.saved > best.saved {
                    best = found;
                }
            }
        }
        best.exchange_all(packing);
        best
    }

    fn is_enough(&self, packing: &Packing, prices: &Prices) -> bool {
        let all = packing.at_stake() as f64;
        all - self.saved as f64 <= (all - prices.bound) * ENOUGH
    }

    /// What fits of the gaps, in the order of what they are worth for the price of their room.
    fn filled(packing: &Packing, prices: &Prices) -> Keep {
        let mut keep = Keep { kept: packing.free.clone(), left: packing.room.clone(), saved: 0 };
        for items in candidates(packing, prices) {
            let mut stay = items.iter().copied().filter(|&item| !keep.kept[item as usize]).collect::<Vec<_>>();
            let taken = stay.iter().position(|&item| !keep.take(packing, item));
            if let Some(taken) = taken {
                stay.truncate(taken);
                stay.into_iter().for_each(|item| keep.release(packing, item));
            }
        }
        keep.saved = packing.groups.iter().map(|group| packing.saved(group, &keep.kept)).sum();
        keep
    }

    /// Has a gap stay if it fits.
    fn take(&mut self, packing: &Packing, number: u32) -> bool {
        let item = &packing.items[number as usize];
        let has_room = |points: std::ops::Range<usize>| self.left[points].iter().all(|&left| left >= item.bytes);
        let fits = packing.points(item).into_iter().all(has_room);
        if fits {
            for points in packing.points(item) {
                self.left[points].iter_mut().for_each(|left| *left -= item.bytes);
            }
            self.kept[number as usize] = true;
        }
        fits
    }

    fn release(&mut self, packing: &Packing, number: u32) {
        let item = &packing.items[number as usize];
        for points in packing.points(item) {
            self.left[points].iter_mut().for_each(|left| *left += item.bytes);
        }
        self.kept[number as usize] = false;
    }

    /// What a gap that stays saves, or one that does not would.
    fn worth(&self, packing: &Packing, number: u32) -> u64 {
        let group = &packing.groups[packing.group_of[number as usize] as usize];
        let others = group.items.iter().all(|&item| item == number || self.kept[item as usize]);
        packing.items[number as usize].worth + if others { group.worth } else { 0 }
    }

    /// Tries gaps that do not stay in the place of such that do, until none is better.
    fn exchange_all(&mut self, packing: &Packing) {
        let mut left = LOOKED_AT;
        for _ in 0..ROUNDS {
            let before = self.saved;
            for number in 0..packing.items.len() as u32 {
                if packing.group_of[number as usize] != NO_GROUP && !self.kept[number as usize] {
                    self.exchange(packing, number, &mut left);
                }
            }
            if self.saved == before {
                break;
            }
        }
    }

    /// Has a gap stay in the place of one or several others that save less; else changes nothing.
    fn exchange(&mut self, packing: &Packing, number: u32, looks: &mut usize) {
        let gain = self.worth(packing, number);
        let (mut loss, mut gone) = (0, Vec::new());
        while loss < gain && !self.take(packing, number) {
            let Some(fewer) = looks.checked_sub(packing.items.len()) else { break };
            *looks = fewer;
            let Some(other) = self.in_the_way(packing, number) else { break };
            loss += self.worth(packing, other);
            self.release(packing, other);
            gone.push(other);
        }
        if self.kept[number as usize] && loss < gain {
            self.saved = self.saved + gain - loss;
            self.refill(packing, &gone);
        } else {
            if self.kept[number as usize] {
                self.release(packing, number);
            }
            gone.into_iter().for_each(|other| _ = self.take(packing, other));
        }
    }

    /// Takes back what still fits of the gaps that made room.
    fn refill(&mut self, packing: &Packing, gone: &[u32]) {
        for &other in gone {
            let worth = self.worth(packing, other);
            if self.take(packing, other) {
                self.saved += worth;
            }
        }
    }

    /// Of the gaps that stay where the room for this one is shortest, the one that saves least for its bytes.
    fn in_the_way(&self, packing: &Packing, number: u32) -> Option<u32> {
        let short = packing.points(&packing.items[number as usize]).into_iter().flatten();
        let shortest = short.min_by_key(|&point| self.left[point])?;
        let stays = |other: &u32| {
            let item = &packing.items[*other as usize];
            self.kept[*other as usize]
                && packing.group_of[*other as usize] != NO_GROUP
                && packing.covers(item, shortest)
        };
        let loss = |other: &u32| self.worth(packing, *other) as f64 / packing.items[*other as usize].bytes as f64;
        (0..packing.items.len() as u32).filter(stays).min_by(|a, b| loss(a).total_cmp(&loss(b)))
    }
}

/// Gaps that are tried together, the best first: those of which a byte that does not move costs least. Room without a price costs almost nothing.
fn candidates<'a>(packing: &'a Packing, prices: &Prices) -> Vec<&'a [u32]> {
    let almost = 1e-6 / packing.room.len().max(1) as f64;
    let cost = |item: u32| {
        let item = &packing.items[item as usize];
        let points: usize = packing.points(item).into_iter().map(|points| points.len()).sum();
        prices.cost(packing, item) + item.bytes as f64 * almost * points as f64
    };
    let mut found = Vec::new();
    for group in &packing.groups {
        let (mut costs, mut worth) = (0.0, group.worth);
        for item in &group.items {
            let own = packing.items[*item as usize].worth;
            (costs, worth) = (costs + cost(*item), worth + own);
            if own > 0 && group.items.len() > 1 {
                found.push((cost(*item) / own as f64, std::slice::from_ref(item)));
            }
        }
        if worth > 0 {
            found.push((costs / worth as f64, &group.items[..]));
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.into_iter().map(|(_, items)| items).collect()
}
