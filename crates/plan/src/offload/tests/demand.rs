//! Placement without a plan: an array is copied in when it is used, and others leave for it at that moment.

use super::lru::Lru;
use crate::offload::{Access, Link, Move, Order, Schedule, What};

/// A policy that chooses the arrays to evict.
pub(super) trait Victims {
    /// Notes the use of an array at this place; places count on over all entries.
    fn note(&mut self, order: &Order, array: u32, place: usize);
    fn forget(&mut self, array: u32);
    fn victims(&self, need: u64, bytes: &dyn Fn(u32) -> Option<u64>) -> Option<Vec<u32>>;
}

impl Victims for Lru {
    fn note(&mut self, _: &Order, array: u32, _: usize) {
        Lru::note(self, array);
    }

    fn forget(&mut self, array: u32) {
        Lru::forget(self, array);
    }

    fn victims(&self, need: u64, bytes: &dyn Fn(u32) -> Option<u64>) -> Option<Vec<u32>> {
        Lru::victims(self, need, bytes)
    }
}

/// Evicts the array whose next use is farthest (Belady).
#[derive(Default)]
pub(super) struct Farthest {
    next: std::collections::BTreeMap<u32, usize>,
}

impl Victims for Farthest {
    fn note(&mut self, order: &Order, array: u32, place: usize) {
        let count = order.uses.len();
        let next = (1..=count).find(|ahead| order.uses[(place + ahead) % count].array == array);
        self.next.insert(array, place + next.unwrap());
    }

    fn forget(&mut self, array: u32) {
        self.next.remove(&array);
    }

    fn victims(&self, need: u64, bytes: &dyn Fn(u32) -> Option<u64>) -> Option<Vec<u32>> {
        let mut order: Vec<(usize, u32)> = self.next.iter().map(|(&array, &next)| (next, array)).collect();
        order.sort_unstable();
        let (mut found, mut victims) = (0, Vec::new());
        while found < need {
            let (_, array) = order.pop()?;
            if let Some(bytes) = bytes(array) {
                found += bytes;
                victims.push(array);
            }
        }
        Some(victims)
    }
}

/// The moves of an entry after some entries.
pub(super) fn on_demand(order: &Order, budget: u64, link: Link, policy: &mut dyn Victims) -> Option<Schedule> {
    let (moves, begin) = moves(order, budget, policy)?;
    let mut schedule = Schedule { moves, resident_at_begin: begin, seconds: f64::INFINITY };
    schedule.seconds = schedule.simulate(order, budget, link);
    Some(schedule)
}

fn moves(order: &Order, budget: u64, policy: &mut dyn Victims) -> Option<(Vec<Move>, Vec<bool>)> {
    let count = order.bytes.len();
    let (mut here, mut dirty, mut held) = (vec![false; count], vec![false; count], vec![0; count]);
    let mut begin = here.clone();
    let mut moves = Vec::new();
    let mut last = vec![0; count];
    order.uses.iter().enumerate().for_each(|(place, each)| last[each.array as usize] = place);
    for entry in 0..4 {
        (moves, begin) = (Vec::new(), here.clone());
        held.iter_mut().for_each(|until| *until = 0);
        for (place, each) in order.uses.iter().enumerate() {
            let array = each.array as usize;
            let mut issue = |array: u32, what| moves.push(Move { before: place as u32, array, what });
            for dead in (0..count).filter(|&array| order.dies[array] && here[array]).collect::<Vec<_>>() {
                if last[dead] < place && held[dead] <= place {
                    issue(dead as u32, What::Evict);
                    policy.forget(dead as u32);
                    (here[dead], dirty[dead]) = (false, false);
                }
            }
            if !here[array] {
                let used: u64 = (0..count).filter(|&array| here[array]).map(|array| order.bytes[array]).sum();
                let may_go = |array: u32| (held[array as usize] <= place).then(|| order.bytes[array as usize]);
                for victim in policy.victims((used + order.bytes[array]).saturating_sub(budget), &may_go)? {
                    if std::mem::take(&mut dirty[victim as usize]) {
                        issue(victim, What::WriteBack);
                    }
                    issue(victim, What::Evict);
                    policy.forget(victim);
                    here[victim as usize] = false;
                }
                if each.access != Access::Fill {
                    issue(each.array, What::Prefetch);
                }
            }
            here[array] = true;
            dirty[array] |= each.access != Access::Read;
            held[array] = held[array].max(each.until as usize).max(place + 1);
            policy.note(order, each.array, place + entry * order.uses.len());
        }
        let before = order.uses.len() as u32;
        for dead in (0..count).filter(|&array| order.dies[array] && here[array]).collect::<Vec<_>>() {
            moves.push(Move { before, array: dead as u32, what: What::Evict });
            policy.forget(dead as u32);
            (here[dead], dirty[dead]) = (false, false);
        }
    }
    Some((moves, begin))
}
