//! When to move what: write-backs as soon as the contents are settled, prefetches as soon as there is room, and no more of
//! either than keeps its link busy.
//!
//! Some entries are gone through on a simulated machine. At each place its links get what they can begin with before the next
//! one, and a copy more: of the write-backs that whose array is to go soonest, of the prefetches that whose array is needed soonest, if
//! its bytes fit at all places until then beside what is held and kept there. An array goes when its write-back is done, or
//! when its memory is needed; one that is used again before that stays.

use std::collections::BTreeSet;

use super::gaps::{Gaps, add, stretches};
use super::machine::Machine;
use super::types::{Access, Link, Order};

/// Entries that are gone through: the first one begins with idle links, which the others do not.
const ENTRIES: u32 = 3;

/// When the moves are made, in places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// By run: places behind its begin at which it is written back.
    pub(super) write: Vec<u32>,
    /// By gap that is not stayed in: places behind its begin at which the array goes, and at which it comes back.
    pub(super) leave: Vec<u32>,
    pub(super) come: Vec<u32>,
}

pub(super) struct Early<'a> {
    order: &'a Order,
    gaps: &'a Gaps,
    kept: &'a [bool],
    budget: u64,
    link: Link,
    machine: Machine<'a>,
    /// Seconds for which a link has copies beyond what it can begin with before the next place: it may be faster than is thought, or work
    /// slower. As long as the longest copy takes.
    ahead: f64,
    times: Times,
    /// Places passed, over all entries.
    passed: u64,
    /// By place: bytes on the device if nothing comes early, and with what does, the next time that it is passed.
    base: Vec<u64>,
    load: Vec<u64>,
    /// Bytes of arrays that are to go, and did not yet; and their gaps.
    late: u64,
    leaving: Vec<u32>,
    /// Runs to be written back, by when their array is to go.
    unwritten: BTreeSet<(u64, u32)>,
    /// By run: when its write-back is done.
    written: Vec<Option<f64>>,
    /// Gaps whose array is away and wanted, by when.
    away: BTreeSet<(u64, u32)>,
}

/// What begins and ends at each place.
struct Events {
    gaps_from: Vec<Vec<u32>>,
    gap_to: Vec<Option<u32>>,
    runs_from: Vec<Vec<(u32, u32)>>,
}

impl Events {
    fn of(gaps: &Gaps, kept: &[bool]) -> Events {
        let places = gaps.held.len();
        let mut events = Events {
            gaps_from: vec![Vec::new(); places],
            gap_to: vec![None; places],
            runs_from: vec![Vec::new(); places],
        };
        for (number, gap) in (0..).zip(&gaps.all).filter(|(number, _)| !kept[*number as usize]) {
            events.gaps_from[gap.from as usize].push(number);
            events.gap_to[gap.to as usize] = Some(number);
        }
        for (number, run) in (0..).zip(&gaps.runs) {
            if let Some(&first) = run.gaps.iter().find(|&&gap| !kept[gap as usize]) {
                let until = gaps.distance(run.from % gaps.places(), gaps.all[first as usize].from);
                events.runs_from[run.from as usize].push((number, until));
            }
        }
        events
    }
}

impl<'a> Early<'a> {
    /// The times at which what is not kept moves.
    pub(super) fn times(order: &'a Order, gaps: &'a Gaps, kept: &'a [bool], budget: u64, link: Link) -> Times {
        let base = gaps.load(order, kept);
        let resident = gaps.resident_at_end(order, |gap, _| kept[gap as usize]);
        let times = Times {
            write: vec![0; gaps.runs.len()],
            leave: vec![0; gaps.all.len()],
            come: gaps.all.iter().map(|gap| gaps.distance(gap.from, gap.to)).collect(),
        };
        let mut early = Early {
            order,
            gaps,
            kept,
            budget,
            link,
            ahead: link.seconds(order.bytes.iter().copied().max().unwrap_or(0)),
            machine: Machine::new(order, budget, link, &resident),
            times,
            passed: 0,
            load: base.clone(),
            base,
            late: 0,
            leaving: Vec::new(),
            unwritten: BTreeSet::new(),
            written: vec![Some(0.0); gaps.runs.len()],
            away: BTreeSet::new(),
        };
        let events = Events::of(gaps, kept);
        for _ in 0..ENTRIES {
            (0..gaps.places()).for_each(|place| early.step(&events, place));
        }
        early.times
    }

    fn step(&mut self, events: &Events, place: u32) {
        let horizon = self.machine.now + self.order.work_from(place) + self.ahead;
        for &(run, until) in &events.runs_from[place as usize] {
            self.written[run as usize] = None;
            self.unwritten.insert((self.passed + u64::from(until), run));
        }
        events.gaps_from[place as usize].iter().for_each(|&gap| self.begin(gap));
        if let Some(gap) = events.gap_to[place as usize] {
            self.arrive(gap, place);
        }
        while self.machine.out_ends < horizon
            && let Some(&(_, run)) = self.unwritten.first()
        {
            self.write(run);
        }
        self.let_go();
        self.make_room(place);
        self.fetch(place);
        while self.machine.in_ends < horizon && self.prefetch(place) {}
        self.machine.pass(place);
        self.load[place as usize] = self.base[place as usize];
        self.passed += 1;
    }

    /// An array that does not stay is let go by its last use.
    fn begin(&mut self, gap: u32) {
        self.leaving.push(gap);
        self.late += self.bytes(gap);
    }

    fn bytes(&self, gap: u32) -> u64 {
        self.order.bytes[self.gaps.all[gap as usize].array as usize]
    }

    /// An array that is used again before it went stays.
    fn arrive(&mut self, gap: u32, place: u32) {
        if let Some(at) = self.leaving.iter().position(|&other| other == gap) {
            self.leaving.remove(at);
            self.late -= self.bytes(gap);
            let whole = self.gaps.distance(self.gaps.all[gap as usize].from, place);
            self.times.leave[gap as usize] = whole;
            self.forget(gap);
        }
    }

    /// Nothing is written back for a gap that was stayed in, if it was the last of its run: the next use changes the contents.
    fn forget(&mut self, gap: u32) {
        if let Some(run) = self.gaps.run_of[gap as usize] {
            let last = self.gaps.runs[run as usize].gaps.iter().rev().find(|&&other| !self.kept[other as usize]);
            if last == Some(&gap) {
                self.unwritten.retain(|&(_, other)| other != run);
            }
        }
    }

    fn write(&mut self, run: u32) {
        self.unwritten.retain(|&(_, other)| other != run);
        let Some(&gap) = self.gaps.runs[run as usize].gaps.first() else { return };
        self.written[run as usize] = Some(self.machine.write_back(self.gaps.all[gap as usize].array));
        let place = (self.passed % u64::from(self.gaps.places())) as u32;
        self.times.write[run as usize] = self.gaps.distance(self.gaps.runs[run as usize].from, place);
    }

    /// When the array of a gap may go: at once if the host has its contents.
    fn ready(&self, gap: u32) -> Option<f64> {
        self.gaps.run_of[gap as usize].map_or(Some(0.0), |run| self.written[run as usize])
    }

    /// Nothing if no write-back has to be waited for.
    fn slack(&self, gap: u32) -> f64 {
        self.gaps.run_of[gap as usize].map_or(0.0, |_| self.link.seconds(self.bytes(gap)))
    }

    /// Evicts what was written back as long ago as that took. If work takes less than was thought, the device does not wait for it.
    fn let_go(&mut self) {
        let now = self.machine.now;
        let (gone, leaving) = std::mem::take(&mut self.leaving)
            .into_iter()
            .partition(|&gap| self.ready(gap).is_some_and(|ready| ready + self.slack(gap) <= now));
        self.leaving = leaving;
        let gone: Vec<u32> = gone;
        gone.into_iter().for_each(|gap| self.evict(gap));
    }

    fn evict(&mut self, gap: u32) {
        let Gaps { all, .. } = self.gaps;
        let each = &all[gap as usize];
        self.late -= self.bytes(gap);
        self.machine.evict(each.array);
        let place = (self.passed % u64::from(self.gaps.places())) as u32;
        self.times.leave[gap as usize] = self.gaps.distance(each.from, place);
        if each.comes_in && !each.is_dead {
            self.away.insert((self.passed + u64::from(self.gaps.distance(place, each.to)), gap));
        }
    }

    /// Evicts what is not written back yet where its memory is needed: what is soonest.
    fn make_room(&mut self, place: u32) {
        while self.load[place as usize] + self.late > self.budget {
            let ready = |&gap: &u32| self.ready(gap).unwrap_or(f64::INFINITY);
            let soonest =
                (0..self.leaving.len()).min_by(|&a, &b| ready(&self.leaving[a]).total_cmp(&ready(&self.leaving[b])));
            let Some(at) = soonest else { return };
            let gap = self.leaving.remove(at);
            if let (None, Some(run)) = (self.ready(gap), self.gaps.run_of[gap as usize]) {
                self.write(run);
            }
            self.evict(gap);
        }
    }

    /// Has the array of this place's use come, if it is away.
    fn fetch(&mut self, place: u32) {
        let Some(each) = self.order.uses.get(place as usize) else { return };
        let now = self.passed;
        if let Some(&(_, gap)) = self.away.first().filter(|(when, _)| *when == now) {
            self.away.pop_first();
            self.times.come[gap as usize] = self.gaps.distance(self.gaps.all[gap as usize].from, place);
            self.machine.prefetch(each.array);
        } else if !self.machine.is_here(each.array) && each.access != Access::Fill {
            self.machine.prefetch(each.array);
        }
    }

    /// Has the array come that is needed soonest; false if there is none, or no room for it.
    fn prefetch(&mut self, place: u32) -> bool {
        let Some(&(_, gap)) = self.away.first() else { return false };
        let (each, bytes) = (&self.gaps.all[gap as usize], self.bytes(gap));
        let Some(most) = self.budget.checked_sub(bytes) else { return false };
        let fits = stretches(place as usize, each.to as usize, self.load.len())
            .into_iter()
            .all(|places| self.load[places].iter().all(|&load| load <= most));
        if !fits || self.load[place as usize] + self.late > most {
            return false;
        }
        self.away.pop_first();
        add(&mut self.load, place, each.to, bytes);
        self.times.come[gap as usize] = self.gaps.distance(each.from, place);
        self.machine.prefetch(each.array);
        true
    }
}
