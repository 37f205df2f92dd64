//! The sizes of first allocations by which entries tell their plan.
//!
//! The sizes that a plan holds do not always tell. A training on images of several sizes takes other steps for the largest images than for the
//! others. A plan that served some of those steps badly is wide enough for their first allocation afterwards.

use super::{Plan, Plans};
use gpucache_plan::entries::Envelope;

/// First sizes that a plan remembers: as many as a training has kinds of images or buckets of lengths.
pub(super) const KEPT: usize = 8;

impl Plan {
    /// Whether this plan expects a first allocation with which, as far as is known, only entries of the other plan begin.
    fn may_be(&self, other: &Plan) -> bool {
        let is_of_other = |&bytes: &u64| bytes > 0 && self.envelope.begins_with(bytes) && !self.firsts.contains(&bytes);
        other.firsts.iter().any(is_of_other)
    }
}

impl Plans {
    /// Whether the first allocation of the entry may tell that another plan than the active one serves it, although the active one expects it.
    pub(super) fn is_told_by_first(&self) -> bool {
        let Some(active) = self.plans.get(self.active) else { return false };
        let most = |envelope: &Envelope| envelope.sizes_at(0).map(|(_, most)| most);
        let expects_more = most(&active.envelope) > most(active.known());
        expects_more || self.plans.iter().any(|other| active.may_be(other))
    }

    /// The plan whose entries alone began with so many bytes, as far as is known; `None` if that is the active one, or several.
    pub(super) fn told_by(&self, bytes: u64) -> Option<usize> {
        let mut those = (0..self.plans.len()).filter(|&place| self.plans[place].firsts.contains(&bytes));
        those.next().filter(|&place| place != self.active && those.next().is_none())
    }

    /// Notes that an entry with a first allocation of so many bytes followed a plan.
    pub(in crate::planner) fn note_first(&mut self, plan: usize, bytes: u64) {
        if let Some(Plan { firsts, .. }) = self.plans.get_mut(plan)
            && !firsts.contains(&bytes)
        {
            firsts.rotate_left(1);
            firsts[KEPT - 1] = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plans whose entries began with these sizes. The first plan is active.
    fn plans(firsts: &[&[u64]]) -> Plans {
        let mut plans = Plans { plans: firsts.iter().map(|_| Plan::default()).collect(), ..Plans::default() };
        for (place, sizes) in firsts.iter().enumerate() {
            sizes.iter().for_each(|&bytes| plans.note_first(place, bytes));
        }
        plans
    }

    #[test]
    fn a_size_of_one_plan_alone_tells_it() {
        let told = plans(&[&[100, 200], &[300, 200], &[400]]);
        assert_eq!([100, 200, 300, 400, 500].map(|bytes| told.told_by(bytes)), [None, None, Some(1), Some(2), None]);
    }

    #[test]
    fn the_last_sizes_are_remembered() {
        let sizes: Vec<u64> = (1..=KEPT as u64 + 1).collect();
        let told = plans(&[&[], &sizes]);
        assert!(told.told_by(1).is_none() && sizes[1..].iter().all(|&bytes| told.told_by(bytes) == Some(1)));
    }
}
