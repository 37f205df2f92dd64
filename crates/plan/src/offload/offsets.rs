//! Offsets for the arrays of a schedule, so that each of them finds contiguous memory whenever it comes.
//!
//! The schedule tells when each array is on the device. These stretches of a circle are placed one after the other: the largest arrays
//! first, and of equal ones that which leaves last, or else that which comes first. Each takes the lowest offset that is free all the
//! time (first fit decreasing). As long as the result is too high, the stretches that ended too high are placed earlier (`fit`).
//!
//! For the step of a GPT in 0.3 and 0.4 of its memory, with arrays of 1, 4, 8 and 32 MiB, the first attempt needs 1.08 to 1.16 times the
//! bytes of the fullest place, and 80 attempts 1.03 to 1.11 times. Best fit, or the longest stretch first, is worse. So is the solver of
//! `layout`, which knows no circle, above those stretches that last past the entry's end. Without offsets, with best fit as arrays come,
//! 1.23 times were too few for some entries.

mod fit;

use super::gaps::distance;
use super::types::{Order, Schedule, What};

/// An entry with more stretches gets no offsets, since each stretch is compared with all others: as many take some 50 ms.
const MOST_STRETCHES: usize = 1 << 12;

/// The places from `from` up to but not including `to` on the circle; all of them if both are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    array: u32,
    from: u32,
    to: u32,
    offset: u64,
    bytes: u64,
}

impl Stretch {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }

    /// Whether the array is on the device at a place, in an entry of so many places.
    fn covers(&self, place: u32, places: u32) -> bool {
        self.from == self.to || distance(self.from, place, places) < distance(self.from, self.to, places)
    }
}

/// The offset of each array at each place of an entry.
#[derive(Clone, Debug, Default)]
pub struct Offsets {
    /// In the order of the arrays.
    stretches: Vec<Stretch>,
    places: u32,
    height: u64,
}

impl Offsets {
    /// The end of the highest array.
    pub fn height(&self) -> u64 {
        self.height
    }

    /// The bytes that lie at the fullest place.
    #[cfg(test)]
    pub(super) fn fullest(&self) -> u64 {
        let bytes =
            |place| self.stretches.iter().filter(|each| each.covers(place, self.places)).map(|each| each.bytes).sum();
        (0..self.places).map(bytes).max().unwrap_or(0)
    }

    /// Where an array is when a use is reached, once the moves before it are made; `None` if it is not on the device then, or has no
    /// bytes. The number of uses means the entry's end.
    pub fn of(&self, array: u32, place: u32) -> Option<u64> {
        let first = self.stretches.partition_point(|each| each.array < array);
        let own = self.stretches[first..].iter().take_while(|each| each.array == array);
        own.clone().find(|each| each.covers(place, self.places)).map(|each| each.offset)
    }
}

impl Order {
    /// Whether a schedule may have [`offsets`](Schedule::offsets) for arrays of these bytes. None has any if too many arrays are used, since each of
    /// them is on the device for one stretch at least.
    pub fn may_have_offsets(&self, bytes: &[u64]) -> bool {
        let mut is_used = vec![false; self.bytes.len()];
        self.uses.iter().for_each(|each| is_used[each.array as usize] = true);
        is_used.iter().zip(bytes).filter(|(is_used, bytes)| **is_used && **bytes > 0).count() <= MOST_STRETCHES
    }
}

impl Schedule {
    /// Offsets for arrays of these bytes, which may differ from those of the order: an array that may not move has none there. Looks for
    /// lower ones as long as they are higher than `enough`, within bounds. `None` if the entry is too long, or the bytes have no sum.
    pub fn offsets(&self, order: &Order, bytes: &[u64], enough: u64) -> Option<Offsets> {
        bytes.iter().try_fold(0, |sum: u64, &bytes| sum.checked_add(bytes))?;
        let places = order.end() + 1;
        let mut stretches = self.stretches(order, bytes);
        if stretches.len() > MOST_STRETCHES {
            return None;
        }
        let height = fit::place(&mut stretches, places, enough);
        Some(Offsets { stretches, places, height })
    }

    /// When each array is on the device.
    fn stretches(&self, order: &Order, bytes: &[u64]) -> Vec<Stretch> {
        let mut found = Vec::new();
        for (array, events) in (0..).zip(self.events(order)) {
            let bytes = bytes.get(array as usize).copied().unwrap_or(0);
            if bytes > 0 {
                let stretch = |(from, to)| Stretch { array, from, to, offset: 0, bytes };
                let is_here = self.resident_at_begin.get(array as usize).is_some_and(|here| *here);
                found.extend(spans(&events, is_here).into_iter().map(stretch));
            }
        }
        found
    }

    /// For each array: the places at which it comes or goes, and whether it is there afterwards, in the order in which they happen.
    fn events(&self, order: &Order) -> Vec<Vec<(u32, u8, bool)>> {
        let mut events = vec![Vec::new(); order.bytes.len()];
        for each in &self.moves {
            match each.what {
                What::Evict => events[each.array as usize].push((each.before, 0, false)),
                What::Prefetch => events[each.array as usize].push((each.before, 1, true)),
                What::WriteBack => {}
            }
        }
        let mut released = vec![0; order.bytes.len()];
        for (place, each) in (0..).zip(&order.uses) {
            events[each.array as usize].push((place, 2, true));
            let last = &mut released[each.array as usize];
            *last = order.let_go(place).max(*last);
        }
        for (array, &last) in released.iter().enumerate().filter(|(array, _)| order.dies[*array]) {
            events[array].push((last, 0, false));
        }
        events.iter_mut().for_each(|events| events.sort_unstable());
        events
    }
}

/// The stretches between these events. The last one continues past the entry's end if the array is there when the entry begins.
fn spans(events: &[(u32, u8, bool)], is_here: bool) -> Vec<(u32, u32)> {
    // The places at which it comes and goes, in turn.
    let (mut places, mut now) = (Vec::new(), is_here);
    for &(place, _, comes) in events {
        if comes != now {
            places.push(place);
            now = comes;
        }
    }
    if is_here && places.is_empty() {
        return vec![(0, 0)];
    }
    // What began before the entry is the end of what lasts past it.
    if is_here {
        places.rotate_left(1);
    }
    if is_here != now {
        places.insert(places.len() - usize::from(is_here), 0);
    }
    places.chunks_exact(2).map(|span| (span[0], span[1])).collect()
}
