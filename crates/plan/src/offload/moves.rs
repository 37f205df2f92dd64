//! Turns times into a schedule that repeats and always fits the budget.

use super::early::Times;
use super::gaps::{Gaps, Run, add};
use super::types::{Move, Order, Schedule, What};

/// A move as its place, kind, places until it is needed, and array. In this order arrays leave before others take their memory.
type Keyed = (u32, What, u32, u32);

impl Gaps {
    /// For each array: whether it is on the device at the entry's end. `stays` answers this for gaps that continue past the end; its
    /// arguments are the number of the gap and the places from its beginning to the end.
    pub(super) fn resident_at_end(&self, order: &Order, stays: impl Fn(u32, u32) -> bool) -> Vec<bool> {
        let mut resident = vec![false; order.bytes.len()];
        for (number, gap) in (0..).zip(&self.all).filter(|(_, gap)| gap.from > gap.to) {
            resident[gap.array as usize] = stays(number, self.distance(gap.from, order.end()));
        }
        resident
    }
}

impl Times {
    /// Whether the array of a gap in which it is not kept leaves. Otherwise it stays after all.
    pub(super) fn goes(&self, gaps: &Gaps, gap: u32) -> bool {
        gaps.all[gap as usize].rests || self.leave[gap as usize] < self.come[gap as usize]
    }

    /// Makes everything fit at each place: arrays that leave too late leave sooner, and arrays that come too early come later.
    ///
    /// The simulated entries may differ from each other in a few moves. One entry made of their times, which repeats, may
    /// therefore need more memory than the budget. Without late leaving and early coming the schedule always fits.
    pub(super) fn settle(&mut self, order: &Order, gaps: &Gaps, kept: &[bool], budget: u64) {
        let mut load = gaps.load(order, kept);
        let away: Vec<u32> = (0..gaps.all.len() as u32).filter(|&gap| !kept[gap as usize]).collect();
        for &gap in &away {
            let each = &gaps.all[gap as usize];
            let whole = gaps.distance(each.from, each.to);
            let (leave, come) = (&mut self.leave[gap as usize], &mut self.come[gap as usize]);
            if *leave > *come {
                *come = whole;
            }
            let bytes = order.bytes[each.array as usize];
            add(&mut load, each.from, gaps.behind(each.from, *leave), bytes);
            add(&mut load, gaps.behind(each.from, *come), each.to, bytes);
        }
        for place in 0..gaps.places() {
            for &gap in &away {
                if load[place as usize] <= budget {
                    break;
                }
                self.clear(order, gaps, gap, place, &mut load);
            }
        }
    }

    /// Moves the times of a gap so that its array is not on the device at a place.
    fn clear(&mut self, order: &Order, gaps: &Gaps, gap: u32, place: u32, load: &mut [u64]) {
        let each = &gaps.all[gap as usize];
        let (bytes, whole) = (order.bytes[each.array as usize], gaps.distance(each.from, each.to));
        let at = gaps.distance(each.from, place);
        if at >= whole {
            return;
        }
        let (leave, come) = (&mut self.leave[gap as usize], &mut self.come[gap as usize]);
        let mut less = |from: u32, to: u32| {
            for step in from..to {
                load[gaps.behind(each.from, step) as usize] -= bytes;
            }
        };
        if at < *leave {
            less(at, *leave);
            *leave = at;
        } else if at >= *come {
            less(*come, at + 1);
            *come = at + 1;
        }
    }

    /// The schedule with these times. How long it takes is not known yet.
    pub(super) fn schedule(&self, order: &Order, gaps: &Gaps, kept: &[bool]) -> Schedule {
        let goes = |gap: u32| !kept[gap as usize] && self.goes(gaps, gap);
        let mut moves = self.write_backs(gaps, goes);
        for (number, gap) in (0..).zip(&gaps.all).filter(|(number, _)| goes(*number)) {
            let (leave, come) = (self.leave[number as usize], self.come[number as usize]);
            moves.push((gaps.behind(gap.from, leave), What::Evict, 0, gap.array));
            if gap.comes_in {
                let place = gaps.behind(gap.from, come);
                moves.push((place, What::Prefetch, gaps.distance(place, gap.to), gap.array));
            }
        }
        moves.sort_unstable();
        let moves = moves.into_iter().map(|(before, what, _, array)| Move { before, array, what }).collect();
        let is_there = |gap: u32, at: u32| at < self.leave[gap as usize] || at >= self.come[gap as usize];
        let resident_at_begin = gaps.resident_at_end(order, |gap, at| kept[gap as usize] || is_there(gap, at));
        Schedule { moves, resident_at_begin, seconds: f64::INFINITY }
    }

    /// The write-backs: one for each run during whose gaps the array leaves, before it leaves for the first time.
    fn write_backs(&self, gaps: &Gaps, goes: impl Fn(u32) -> bool) -> Vec<Keyed> {
        let write = |(number, run): (usize, &Run)| {
            let gap = *run.gaps.iter().find(|&&gap| goes(gap))?;
            let each = &gaps.all[gap as usize];
            let until = gaps.distance(run.from, each.from) + self.leave[gap as usize];
            let write = self.write[number].min(until);
            Some((gaps.behind(run.from, write), What::WriteBack, until - write, each.array))
        };
        gaps.runs.iter().enumerate().filter_map(write).collect()
    }
}
