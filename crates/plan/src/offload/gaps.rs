//! Gaps: the times between two uses of an array, in which it may stay on the device or rest on the host.
//!
//! Time is counted in places: one for each use, and one for the entry's end. Entries repeat, so time is a circle. The gap
//! behind the last use of an array continues past the entry's end to the first use.
//!
//! If an array leaves during a gap, its bytes are copied in again, provided that the next use needs the contents. Changed contents are
//! also written back, once for all gaps up to the next change. These gaps form a *run*: the write-back is saved only if the array
//! stays during all of them.

use super::types::{Access, Order};

/// The places from `from` up to but not including `to`; past the entry's end if `from > to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) array: u32,
    pub(super) from: u32,
    pub(super) to: u32,
    /// Whether the next use needs the contents, so that they have to be on the device.
    pub(super) comes_in: bool,
    /// Whether the array is dead during the gap, so that it cannot stay.
    pub(super) is_dead: bool,
    /// Whether the array rests on the host during the gap, in any case.
    pub(super) rests: bool,
}

impl Gap {
    /// Whether the array may be on the device during all of the gap.
    pub(super) fn may_stay(&self) -> bool {
        !self.is_dead && !self.rests
    }
}

/// The gaps between a change and the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// The place from which on the contents may be written back.
    pub(super) from: u32,
    /// In order of time.
    pub(super) gaps: Vec<u32>,
}

/// All gaps of an entry.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    pub(super) all: Vec<Gap>,
    pub(super) runs: Vec<Run>,
    /// The run that each gap belongs to; `None` if the copy on the host is up to date.
    pub(super) run_of: Vec<Option<u32>>,
    /// For each place: bytes that uses hold there, whatever is decided.
    pub(super) held: Vec<u64>,
}

/// The state of an array while its uses are visited in order.
#[derive(Clone, Default)]
struct Walk {
    first: Option<(u32, Access)>,
    /// The first place at which no use holds it.
    end: u32,
    /// The same for uses that change the array.
    changed_end: u32,
    run: Option<u32>,
    /// Gaps before the first change. They belong to the last run.
    before_change: Vec<u32>,
}

impl Gaps {
    pub(super) fn of(order: &Order) -> Gaps {
        let mut gaps = Gaps { held: vec![0; order.uses.len() + 1], ..Gaps::default() };
        let mut walks = vec![Walk::default(); order.bytes.len()];
        for (place, each) in order.uses.iter().enumerate() {
            gaps.step(order, place as u32, each.access, each.array, &mut walks[each.array as usize]);
        }
        for (array, walk) in walks.into_iter().enumerate() {
            if let Some((to, access)) = walk.first {
                let comes_in = access != Access::Fill;
                let (number, is_dead) = (array as u32, order.dies[array]);
                let rests = !is_dead && order.rests(number);
                let gap = Gap { array: number, from: walk.end, to, comes_in, is_dead, rests };
                gaps.close(gap, walk);
            }
        }
        gaps
    }

    /// Visits the next use of an array.
    fn step(&mut self, order: &Order, place: u32, access: Access, array: u32, walk: &mut Walk) {
        let until = order.let_go(place);
        if walk.first.is_none() {
            walk.first = Some((place, access));
        } else if walk.end < place {
            let (comes_in, rests) = (access != Access::Fill, order.rests(array));
            let gap = Gap { array, from: walk.end, to: place, comes_in, is_dead: false, rests };
            let number = self.push(gap, walk.run);
            if walk.run.is_none() {
                walk.before_change.push(number);
            }
        }
        for held in place.max(walk.end)..until {
            self.held[held as usize] += order.bytes[array as usize];
        }
        walk.end = walk.end.max(until);
        if access.changes() {
            walk.changed_end = walk.changed_end.max(until);
            walk.run = Some(self.runs.len() as u32);
            self.runs.push(Run { from: walk.changed_end, gaps: Vec::new() });
        }
    }

    /// Adds the gap behind an array's last use.
    fn close(&mut self, gap: Gap, walk: Walk) {
        let run = walk.run.filter(|_| !gap.is_dead);
        self.push(gap, run);
        if let Some(run) = run {
            for number in walk.before_change {
                self.run_of[number as usize] = Some(run);
                self.runs[run as usize].gaps.push(number);
            }
        }
    }

    fn push(&mut self, gap: Gap, run: Option<u32>) -> u32 {
        let number = self.all.len() as u32;
        self.all.push(gap);
        self.run_of.push(run);
        if let Some(run) = run {
            self.runs[run as usize].gaps.push(number);
        }
        number
    }

    /// The number of places in the circle.
    pub(super) fn places(&self) -> u32 {
        self.held.len() as u32
    }

    /// The number of places from one place forward to another.
    pub(super) fn distance(&self, from: u32, to: u32) -> u32 {
        distance(from, to, self.places())
    }

    /// The place this many places behind another.
    pub(super) fn behind(&self, place: u32, distance: u32) -> u32 {
        (place + distance) % self.places()
    }

    /// For each place: bytes on the device if arrays stay during exactly these gaps.
    pub(super) fn load(&self, order: &Order, kept: &[bool]) -> Vec<u64> {
        let mut load = self.held.clone();
        for (gap, _) in self.all.iter().zip(kept).filter(|(_, kept)| **kept) {
            add(&mut load, gap.from, gap.to, order.bytes[gap.array as usize]);
        }
        load
    }
}

/// The number of places from one place forward to another, on a circle of `places`.
pub(super) fn distance(from: u32, to: u32, places: u32) -> u32 {
    if to >= from { to - from } else { to + places - from }
}

/// The one or two ranges from one place to another on a circle; both are empty if the places are the same.
pub(super) fn stretches(from: usize, to: usize, places: usize) -> [std::ops::Range<usize>; 2] {
    if from <= to { [from..to, 0..0] } else { [from..places, 0..to] }
}

/// Adds bytes to all places from one place up to but not including another.
pub(super) fn add(load: &mut [u64], from: u32, to: u32, bytes: u64) {
    for stretch in stretches(from as usize, to as usize, load.len()) {
        load[stretch].iter_mut().for_each(|each| *each += bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::types::Use;
    use super::*;

    #[test]
    fn a_run_goes_on_through_the_entrys_end_to_the_next_change() {
        let access = [Access::Read, Access::Write, Access::Read];
        let uses =
            [0, 2, 4].iter().zip(access).map(|(&place, access)| (place, Use { array: 0, access, until: place + 1 }));
        let mut all = vec![Use { array: 1, access: Access::Read, until: 0 }; 5];
        uses.for_each(|(place, each)| all[place as usize] = each);
        let order = Order {
            bytes: vec![8, 1],
            uses: all,
            at: vec![0.0; 5],
            length: 0.0,
            dies: vec![false, false],
            rests: vec![],
        };
        let gaps = Gaps::of(&order);
        let spans =
            |array| gaps.all.iter().filter(|gap| gap.array == array).map(|gap| (gap.from, gap.to)).collect::<Vec<_>>();
        assert_eq!(spans(0), [(1, 2), (3, 4), (5, 0)]);
        assert_eq!(spans(1), [(2, 3), (4, 1)]);
        assert_eq!(gaps.runs.len(), 1);
        let run: Vec<_> = gaps.runs[0].gaps.iter().map(|&gap| gaps.all[gap as usize].from).collect();
        assert_eq!((gaps.runs[0].from, run), (3, vec![3, 5, 1]));
        assert_eq!(gaps.held, [8, 1, 8, 1, 8, 0]);
    }
}
