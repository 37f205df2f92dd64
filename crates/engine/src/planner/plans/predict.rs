//! Chooses the plan of the next entry: the one that followed the last plan most often, or the one that the first allocation tells.

use super::{Plan, Plans};
use gpucache_plan::entries::Cursor;

/// The counts in `next` are halved at this count, so that only about the last ten entries decide.
const MOST_FOLLOWED: u32 = 8;

impl Plans {
    /// Makes the plan active that the next entry follows: the `known` one, or the most likely one. Returns whether to look at the first
    /// allocation of the entry, which may tell another plan.
    #[inline]
    pub(in crate::planner) fn choose_next(&mut self, known: Option<usize>, cursor: &mut Cursor) -> bool {
        match known {
            Some(known) => self.choose(known, cursor),
            None if self.plans.len() > 1 => return self.predict_of_several(cursor),
            None => {}
        }
        false
    }

    fn predict_of_several(&mut self, cursor: &mut Cursor) -> bool {
        let Some(last) = self.plans.get(self.last) else { return false };
        // Among equally likely plans, prefers the active one, which needs no switch.
        let likely = (0..self.plans.len()).max_by_key(|&place| (last.next[place], place == self.active));
        if let Some(likely) = likely.filter(|&likely| likely != self.active) {
            let _ = self.activate(likely, cursor);
        }
        self.is_told_by_first()
    }

    /// Switches to the plan whose entries alone began with this first allocation, or to one that expects it, if the active plan does not. If none
    /// does, takes the plan with the nearest known size: entries of nearly equal sizes mostly have the same order. If the allocation `is_past`, a
    /// plan cannot become larger for it. Nothing may be alive in the plans.
    pub(in crate::planner) fn switch_by_first_event(&mut self, cursor: &mut Cursor, bytes: u64, is_past: bool) -> bool {
        if let Some(told) = self.told_by(bytes) {
            return self.activate(told, cursor);
        }
        let may_serve = |plan: &&Plan| !is_past || plan.known().first_is_at_least(bytes);
        let off_by = |plan: &Plan| Some(plan).filter(may_serve)?.known().first_is_off_by(bytes);
        let active = self.plans.get(self.active).and_then(off_by).unwrap_or(f64::INFINITY);
        let others = (0..).zip(&self.plans).filter_map(|(place, plan)| Some((place, off_by(plan)?)));
        let nearest = others.min_by(|one, other| one.1.total_cmp(&other.1)).filter(|&(_, ratio)| ratio < active);
        nearest.is_some_and(|(other, _)| self.activate(other, cursor))
    }

    /// Whether all entries of the active plan began with fewer bytes, and its sizes do not grow from entry to entry.
    pub(in crate::planner) fn are_smaller_than(&self, first: u64) -> bool {
        !self.grows() && self.plans.get(self.active).is_some_and(|plan| !plan.known().first_is_at_least(first))
    }

    /// Notes that the entry which ends followed this plan.
    pub(in crate::planner) fn note_followed(&mut self, plan: usize, entry: u64) {
        if let Some(count) = self.plans.get_mut(self.last).and_then(|last| last.next.get_mut(plan)) {
            *count += 1;
            if *count == MOST_FOLLOWED {
                self.plans[self.last].next.iter_mut().for_each(|count| *count /= 2);
            }
        }
        self.last = plan;
        if let Some(plan) = self.plans.get_mut(plan) {
            plan.used = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpucache_plan::entries::{Envelope, Log};

    /// A plan of entries whose first allocations had these sizes, and all others twice as many bytes.
    fn plan(first: [u64; 2]) -> Plan {
        let log = |bytes: u64| {
            let mut log = Log::default();
            [bytes, 2 * bytes, 2 * bytes].into_iter().for_each(|bytes| assert!(log.allocated(0, bytes).is_some()));
            (0..3).for_each(|number| log.dropped(number));
            log
        };
        let [least, most] = first.map(log);
        let envelope = Envelope::of(&least, &most).unwrap();
        Plan { seen: envelope.clone(), envelope, cursor: Some(Cursor::default()), ..Plan::default() }
    }

    #[test]
    fn a_first_allocation_that_was_made_takes_a_plan_that_is_large_enough() {
        for (is_past, expected) in [(false, 0), (true, 1)] {
            let mut plans = Plans { plans: vec![plan([100, 200]), plan([300, 600])], ..Plans::default() };
            plans.plans[0].cursor = None;
            assert!(plans.are_smaller_than(220) && !plans.are_smaller_than(200));
            let switches = plans.switch_by_first_event(&mut Cursor::default(), 220, is_past);
            assert_eq!(
                (switches, plans.active()),
                (is_past, expected),
                "220 is nearer to 200, which a plan can exceed at its beginning"
            );
        }
    }
}
