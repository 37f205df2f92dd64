//! What served the allocations of the timed run, as its scopes count them.
//!
//! Invariants: the counters are read between what is timed, never within; only differences are told, as the counters go
//! on from earlier runs under the same name.

use std::time::Duration;

use gpucache::prelude::*;

use crate::common::Result;
use crate::replay::Watch;

/// Shares of the allocations of a steady state, from 0 to 1; without allocations all are 0. What is ranged the device's range
/// served, with what it had or by a miss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shares {
    pub(crate) planned: f64,
    pub(crate) listed: f64,
    pub(crate) ranged: f64,
}

/// What served the timed run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Served {
    /// In the steady state of the last pass.
    pub(crate) steady: Shares,
    /// From the plan, over all passes.
    pub(crate) deviations: u64,
    /// Time spent on planning, over all passes.
    pub(crate) planning: Duration,
}

/// What the scopes of a run have counted, in sum.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    planned: u64,
    listed: u64,
    ranged: u64,
    deviations: u64,
    planning: Duration,
}

/// The watch of the run that is timed: an allocation and a free cost it nothing.
#[derive(Debug)]
pub(crate) struct Counted {
    scopes: Vec<String>,
    run_began: Counts,
    steady_began: Counts,
    steady_ended: Counts,
}

impl Counted {
    pub(crate) fn new(scopes: Vec<String>) -> Self {
        let run_began = counts(&scopes);
        Self { scopes, run_began, steady_began: run_began, steady_ended: run_began }
    }

    /// What served the passes since this was made.
    pub(crate) fn served(&self) -> Served {
        let (began, now) = (&self.run_began, counts(&self.scopes));
        Served {
            steady: shares(&self.steady_began, &self.steady_ended),
            deviations: now.deviations.saturating_sub(began.deviations),
            planning: now.planning.saturating_sub(began.planning),
        }
    }
}

impl<D: Device> Watch<D> for Counted {
    fn allocated(&mut self, _slot: u32, _array: &mut Array<u8, D>) -> Result<()> {
        Ok(())
    }

    fn freeing(&mut self, _slot: u32, _array: &Array<u8, D>) -> Result<()> {
        Ok(())
    }

    fn steady_state_begins(&mut self) {
        self.steady_began = counts(&self.scopes);
    }

    fn steady_state_ended(&mut self) {
        self.steady_ended = counts(&self.scopes);
    }
}

/// All zero for scopes that were never entered.
fn counts(scopes: &[String]) -> Counts {
    scopes.iter().filter_map(gpucache::plan_stats).fold(Counts::default(), |sum, one| Counts {
        planned: sum.planned + one.planned,
        listed: sum.listed + one.listed,
        ranged: sum.ranged + one.recycled + one.misses,
        deviations: sum.deviations + one.deviations.total(),
        planning: sum.planning + one.planning_time,
    })
}

fn shares(before: &Counts, after: &Counts) -> Shares {
    let since = |count: fn(&Counts) -> u64| count(after).saturating_sub(count(before)) as f64;
    let [planned, listed, ranged] =
        [since(|counts| counts.planned), since(|counts| counts.listed), since(|counts| counts.ranged)];
    let all = (planned + listed + ranged).max(1.0);
    Shares { planned: planned / all, listed: listed / all, ranged: ranged / all }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(planned: u64, listed: u64, ranged: u64) -> Counts {
        Counts { planned, listed, ranged, ..Counts::default() }
    }

    #[test]
    fn shares_are_of_what_was_counted_in_between() {
        let shares = |before, after| {
            let Shares { planned, listed, ranged } = shares(&before, &after);
            [planned, listed, ranged]
        };
        assert_eq!(shares(counts(7, 8, 9), counts(12, 11, 11)), [0.5, 0.3, 0.2]);
        assert_eq!(shares(counts(7, 8, 9), counts(7, 8, 10)), [0.0, 0.0, 1.0]);
        assert_eq!(shares(counts(7, 8, 9), counts(7, 8, 9)), [0.0; 3]);
    }

    #[test]
    fn a_scope_that_was_never_entered_served_nothing() {
        assert_eq!(Counted::new(vec!["never entered".to_owned()]).served(), Served::default());
    }
}
