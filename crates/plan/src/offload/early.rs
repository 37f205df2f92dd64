//! Decides when each array moves: write-backs start as soon as the contents are final, prefetches as soon as there is memory.
//! No more of either is issued than keeps its link busy.
//!
//! A simulated machine runs a few entries. At each place, each link gets the copies that it can begin before the next place, plus one
//! more. The next write-back is that of the array that has to leave soonest. The next prefetch is that of the array that is needed
//! soonest, if its bytes fit beside the held and kept arrays at all places until then. An array is evicted when its write-back is
//! done, or when its memory is needed. An array that is used again before that stays.

use std::collections::BTreeSet;

use super::gaps::{Gaps, add, stretches};
use super::machine::Machine;
use super::types::{Access, Link, Order};

/// Simulated entries. In the first one the links are idle at the beginning, in the others they are not.
const ENTRIES: u32 = 3;

/// The places at which the moves are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// For each run: how many places behind its beginning it is written back.
    pub(super) write: Vec<u32>,
    /// For each gap in which the array does not stay: how many places behind its beginning the array leaves and comes back.
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
    /// Seconds of copies that a link gets beyond those that it can begin before the next place. The link may be faster than expected, or
    /// the work slower. This is the time of the longest copy.
    ahead: f64,
    times: Times,
    /// Places passed so far, over all entries.
    passed: u64,
    /// For each place, the bytes on the device the next time it is passed: without prefetches, and with them.
    base: Vec<u64>,
    load: Vec<u64>,
    /// The gaps whose array has to leave and is still there; `late` is the sum of their bytes.
    late: u64,
    leaving: Vec<u32>,
    /// Runs to write back, by the place at which their array has to leave.
    unwritten: BTreeSet<(u64, u32)>,
    /// For each run: when its write-back is done.
    written: Vec<Option<f64>>,
    /// Gaps whose array is away and will be used, by the place of that use.
    away: BTreeSet<(u64, u32)>,
}

/// The gaps and runs that begin or end at each place.
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
    /// The times at which the arrays that are not kept move.
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

    /// An array that does not stay may leave after its last use.
    fn begin(&mut self, gap: u32) {
        self.leaving.push(gap);
        self.late += self.bytes(gap);
    }

    fn bytes(&self, gap: u32) -> u64 {
        self.order.bytes[self.gaps.all[gap as usize].array as usize]
    }

    /// An array stays if it is used again before it left.
    fn arrive(&mut self, gap: u32, place: u32) {
        if let Some(at) = self.leaving.iter().position(|&other| other == gap) {
            self.leaving.remove(at);
            self.late -= self.bytes(gap);
            let whole = self.gaps.distance(self.gaps.all[gap as usize].from, place);
            self.times.leave[gap as usize] = whole;
            self.forget(gap);
        }
    }

    /// Cancels the write-back for a gap in which the array stayed after all, if it was the last gap of its run: the next use changes the
    /// contents.
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

    /// When the array of a gap may leave: at once if the host has its contents.
    fn ready(&self, gap: u32) -> Option<f64> {
        self.gaps.run_of[gap as usize].map_or(Some(0.0), |run| self.written[run as usize])
    }

    /// The extra time to wait after a write-back; 0 if the gap needs none.
    fn slack(&self, gap: u32) -> f64 {
        self.gaps.run_of[gap as usize].map_or(0.0, |_| self.link.seconds(self.bytes(gap)))
    }

    /// Evicts arrays whose write-back ended as long ago as it took. So the device need not wait for it if work is faster than expected.
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

    /// Evicts arrays whose memory is needed at once; those whose write-back ends soonest come first.
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

    /// Issues the prefetch for the use at this place, if its array is away.
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

    /// Issues the prefetch of the array that is needed soonest. Returns false if there is none, or not enough memory for it.
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
