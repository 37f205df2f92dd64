//! A simulated machine: device work in order of the uses, a link in each direction, and memory that comes free when what it waits
//! for is done.
//!
//! A move is issued when the device reaches the place it stands before. A copy waits for its link and a prefetch for its memory
//! too; a use waits for its array. What lies where in memory is not looked at.

use std::collections::VecDeque;

use super::types::{Access, Link, Move, Order, What};

#[derive(Debug)]
pub(super) struct Machine<'a> {
    order: &'a Order,
    link: Link,
    /// When the place is reached that comes next.
    pub(super) now: f64,
    /// When the link to the host, and the one from it, have done all that was issued.
    pub(super) out_ends: f64,
    pub(super) in_ends: f64,
    /// By array: when it is on the device; `None` while it is not, nor on its way.
    here: Vec<Option<f64>>,
    /// By array: when its last write-back is done.
    clean: Vec<f64>,
    /// Bytes that are free, and such that will be, by the time at which they are.
    free: u64,
    coming: VecDeque<(f64, u64)>,
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
            free: budget.saturating_sub(used),
            coming: VecDeque::new(),
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

    /// When the copy to the host is done.
    pub(super) fn write_back(&mut self, array: u32) -> f64 {
        self.out_ends = self.out_ends.max(self.now) + self.link.seconds(self.order.bytes[array as usize]);
        self.clean[array as usize] = self.out_ends;
        self.out_ends
    }

    pub(super) fn evict(&mut self, array: u32) {
        self.here[array as usize] = None;
        let (when, bytes) = (self.clean[array as usize], self.order.bytes[array as usize]);
        if when <= self.now {
            self.free += bytes;
        } else {
            let later = self.coming.partition_point(|&(other, _)| other <= when);
            self.coming.insert(later, (when, bytes));
        }
    }

    pub(super) fn prefetch(&mut self, array: u32) {
        let bytes = self.order.bytes[array as usize];
        let begin = self.take(bytes).max(self.in_ends).max(self.now);
        self.in_ends = begin + self.link.seconds(bytes);
        self.here[array as usize] = Some(self.in_ends);
    }

    /// When as many bytes are free, which are used from then on: never if there will not be as many.
    fn take(&mut self, bytes: u64) -> f64 {
        let mut when = self.now;
        while self.free < bytes {
            match self.coming.pop_front() {
                Some((at, more)) => (when, self.free) = (when.max(at), self.free + more),
                None => return f64::INFINITY,
            }
        }
        self.free -= bytes;
        when
    }

    /// Does the use at a place, or waits for the entry's end, and the device work up to the next place.
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
