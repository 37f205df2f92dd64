//! What served the allocations of the timed run, as its scope counts them.
//!
//! Invariants: the counters are read between what is timed, never within; only differences are told, as the counters go
//! on from earlier runs under the same name.

use std::time::Duration;

use gpucache::PlanStats;
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

/// The watch of the run that is timed: an allocation and a free cost it nothing.
#[derive(Debug)]
pub(crate) struct Counted {
    scope: String,
    run_began: PlanStats,
    steady_began: PlanStats,
    steady_ended: PlanStats,
}

impl Counted {
    pub(crate) fn new(scope: String) -> Self {
        let run_began = counters(&scope);
        Self { scope, run_began, steady_began: run_began, steady_ended: run_began }
    }

    /// What served the passes since this was made.
    pub(crate) fn served(&self) -> Served {
        let (began, now) = (&self.run_began, counters(&self.scope));
        Served {
            steady: shares(&self.steady_began, &self.steady_ended),
            deviations: now.deviations.total().saturating_sub(began.deviations.total()),
            planning: now.planning_time.saturating_sub(began.planning_time),
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
        self.steady_began = counters(&self.scope);
    }

    fn steady_state_ended(&mut self) {
        self.steady_ended = counters(&self.scope);
    }
}

/// All zero for a scope that was never entered.
fn counters(scope: &str) -> PlanStats {
    gpucache::plan_stats(scope).unwrap_or_default()
}

fn shares(before: &PlanStats, after: &PlanStats) -> Shares {
    let since = |count: fn(&PlanStats) -> u64| count(after).saturating_sub(count(before)) as f64;
    let [planned, listed, ranged] =
        [since(|stats| stats.planned), since(|stats| stats.listed), since(|stats| stats.recycled + stats.misses)];
    let all = (planned + listed + ranged).max(1.0);
    Shares { planned: planned / all, listed: listed / all, ranged: ranged / all }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(planned: u64, listed: u64, ranged: u64) -> PlanStats {
        let mut stats = PlanStats::default();
        (stats.planned, stats.listed, stats.recycled) = (planned, listed, ranged);
        stats
    }

    #[test]
    fn shares_are_of_what_was_counted_in_between() {
        let shares = |before, after| {
            let Shares { planned, listed, ranged } = shares(&before, &after);
            [planned, listed, ranged]
        };
        assert_eq!(shares(stats(7, 8, 9), stats(12, 11, 11)), [0.5, 0.3, 0.2]);
        assert_eq!(shares(stats(7, 8, 9), stats(7, 8, 10)), [0.0, 0.0, 1.0]);
        assert_eq!(shares(stats(7, 8, 9), stats(7, 8, 9)), [0.0; 3]);
    }

    #[test]
    fn a_scope_that_was_never_entered_served_nothing() {
        assert_eq!(Counted::new("never entered".to_owned()).served(), Served::default());
    }
}
