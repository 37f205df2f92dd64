//! A simulated machine: device work in the order of the uses, a link in each direction, and an amount of memory.
//!
//! A move is issued when the device reaches the place before which it stands. A copy waits for its link. The device waits for the array
//! of a use, and at an eviction for the array's write-back. Addresses are not simulated.

use super::types::{Access, Link, MOST_BYTES, Move, Order, Schedule, What};

pub(super) struct Machine<'a> {
    order: &'a Order,
    link: Link,
    /// When the next place is reached.
    pub(super) now: f64,
    /// When the link to the host, and the link from it, have finished all copies issued so far.
    pub(super) out_ends: f64,
    pub(super) in_ends: f64,
    /// For each array: when it arrives on the device; `None` if it is neither there nor on its way.
    here: Vec<Option<f64>>,
    /// For each array: when its last write-back is done.
    clean: Vec<f64>,
    /// Bytes that are free.
    free: u64,
}

impl<'a> Machine<'a> {
    pub(super) fn new(order: &'a Order, budget: u64, link: Link, resident: &[bool]) -> Machine<'a> {
        let used: u64 = order.bytes.iter().zip(resident).filter(|(_, here)| **here).map(|(bytes, _)| bytes).sum();
        Machine {
            order,
            link,
            now: 0.0,
            out_ends: 0.0,
            in_ends: 0.0,
            here: resident.iter().map(|&here| here.then_some(0.0)).collect(),
            clean: vec![0.0; resident.len()],
            free: budget.min(MOST_BYTES).saturating_sub(used),
        }
    }

    pub(super) fn is_here(&self, array: u32) -> bool {
        self.here[array as usize].is_some()
    }

    pub(super) fn issue(&mut self, each: &Move) {
        match each.what {
            What::WriteBack => _ = self.write_back(each.array),
            What::Evict => self.evict(each.array),
            What::Prefetch => self.prefetch(each.array),
        }
    }

    /// Issues a write-back. Returns when the copy to the host is done.
    pub(super) fn write_back(&mut self, array: u32) -> f64 {
        self.out_ends = self.out_ends.max(self.now) + self.link.seconds(self.order.bytes[array as usize]);
        self.clean[array as usize] = self.out_ends;
        self.out_ends
    }

    /// Evicts an array. The device first waits for its write-back, because it reuses memory in the order of its work.
    pub(super) fn evict(&mut self, array: u32) {
        self.here[array as usize] = None;
        self.now = self.now.max(self.clean[array as usize]);
        self.free += self.order.bytes[array as usize];
    }

    pub(super) fn prefetch(&mut self, array: u32) {
        let bytes = self.order.bytes[array as usize];
        let begin = self.take(bytes).max(self.in_ends).max(self.now);
        self.in_ends = begin + self.link.seconds(bytes);
        self.here[array as usize] = Some(self.in_ends);
    }

    /// Takes this many bytes. Returns when they are free: infinity if there are not as many.
    fn take(&mut self, bytes: u64) -> f64 {
        match self.free.checked_sub(bytes) {
            Some(free) => {
                self.free = free;
                self.now
            }
            None => f64::INFINITY,
        }
    }

    /// Runs the use at a place (or passes the entry's end) and the device work up to the next place.
    pub(super) fn pass(&mut self, place: u32) {
        if let Some(each) = self.order.uses.get(place as usize) {
            let begin = match self.here[each.array as usize] {
                Some(here) => here,
                None if each.access == Access::Fill => self.take(self.order.bytes[each.array as usize]),
                None => f64::INFINITY,
            };
            self.here[each.array as usize] = Some(begin);
            self.now = self.now.max(begin);
        }
        self.now += self.order.work_from(place);
    }
}

/// Simulated entries. In the first ones memory is free and links are idle, unlike in later ones.
const ENTRIES: u32 = 4;

/// When an entry in steady state reaches its places.
pub(super) struct Reached {
    at: Vec<f64>,
    /// Seconds from the beginning of an entry to that of the next one: infinite if the schedule is not valid.
    pub(super) seconds: f64,
}

impl Reached {
    /// Simulates entries of an order.
    pub(super) fn of(order: &Order, budget: u64, link: Link, schedule: &Schedule) -> Reached {
        let mut machine = Machine::new(order, budget, link, &schedule.resident_at_begin);
        let (mut begin, mut seconds, mut at) = (0.0, f64::INFINITY, Vec::new());
        for _ in 0..ENTRIES {
            at.clear();
            let mut moves = schedule.moves.iter().peekable();
            for place in 0..=order.end() {
                at.push(machine.now - begin);
                while let Some(each) = moves.next_if(|each| each.before == place) {
                    machine.issue(each);
                }
                machine.pass(place);
            }
            (seconds, begin) = (machine.now - begin, machine.now);
        }
        Reached { at, seconds: if seconds.is_nan() { f64::INFINITY } else { seconds } }
    }

    /// When a place is reached. Those of the next entry follow those of this one.
    pub(super) fn at(&self, place: u32) -> f64 {
        let places = self.at.len() as u32;
        self.at[(place % places) as usize] + self.seconds * f64::from(place / places)
    }
}

impl Schedule {
    /// Seconds from the beginning of an entry of this order to that of the next one: infinite if the schedule is not valid for it.
    pub fn simulate(&self, order: &Order, budget: u64, link: Link) -> f64 {
        Reached::of(order, budget, link, self).seconds
    }
}
