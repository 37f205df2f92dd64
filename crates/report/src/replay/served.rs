//! Counts the parts that served the allocations of the timed run, by the counters of its scopes.
//!
//! Invariant: the counters are read outside the timed sections.

use std::time::Duration;

use gpucache::{prelude::*, stats::ScopeStats};

use super::pass::Watch;

/// The shares of the parts that served the allocations of some steps, from 0 to 1. Without allocations in scopes all are 0.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, replay::{History, Policy, dry_run}};
///
/// trace::start(1000);
/// for _ in 0..10 {
///     cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
/// }
/// let history = History::of("ten steps", &Run::from(&trace::stop()))?;
/// let steady = dry_run(&history, Policy::Auto, None, NonZeroUsize::MIN)?.steady;
/// assert_eq!((steady.planned, steady.listed, steady.ranged), (1.0, 0.0, 0.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// A plan.
    pub planned: f64,
    /// The lists of its scope.
    pub listed: f64,
    /// The range of the device, with memory that it had or by a miss; or the device itself.
    pub ranged: f64,
}

/// The counts of the timed run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Served {
    /// In the steady state of the last pass.
    pub(super) steady: Shares,
    /// Deviations from plans, over all passes.
    pub(super) deviations: u64,
    /// Time spent on planning, over all passes.
    pub(super) planning: Duration,
}

/// The watch of the timed run. It does nothing at allocations and frees.
#[derive(Debug)]
pub(super) struct Counted<'s> {
    scopes: &'s [String],
    steady_began: ScopeStats,
    steady_ended: ScopeStats,
}

impl<'s> Counted<'s> {
    /// For scopes that nobody has entered yet.
    pub(super) fn new(scopes: &'s [String]) -> Self {
        Self { scopes, steady_began: ScopeStats::default(), steady_ended: ScopeStats::default() }
    }

    /// The counts of all passes so far.
    pub(super) fn served(&self) -> Served {
        let ScopeStats { plan, .. } = counts(self.scopes);
        let steady = shares(&self.steady_began, &self.steady_ended);
        Served { steady, deviations: plan.deviations.total(), planning: plan.planning_time }
    }
}

impl<D: Device> Watch<D> for Counted<'_> {
    fn steady_state_begins(&mut self) {
        self.steady_began = counts(self.scopes);
    }

    fn steady_state_ended(&mut self) {
        self.steady_ended = counts(self.scopes);
    }
}

/// All zero for scopes that were never entered.
fn counts(scopes: &[String]) -> ScopeStats {
    let mut sum = ScopeStats::default();
    scopes.iter().filter_map(gpucache::stats).for_each(|stats| sum += &stats);
    sum
}

fn shares(before: &ScopeStats, after: &ScopeStats) -> Shares {
    let served = after.since(before).served;
    let [planned, listed, ranged, direct] =
        [served.planned, served.listed, served.ranged, served.direct].map(|by| by.allocations as f64);
    let all = (planned + listed + ranged + direct).max(1.0);
    Shares { planned: planned / all, listed: listed / all, ranged: (ranged + direct) / all }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(planned: u64, listed: u64, ranged: u64) -> ScopeStats {
        let mut stats = ScopeStats::default();
        let served = [&mut stats.served.planned, &mut stats.served.listed, &mut stats.served.ranged];
        std::iter::zip(served, [planned, listed, ranged]).for_each(|(by, number)| by.allocations = number);
        stats
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
        assert_eq!(Counted::new(&["never entered".to_owned()]).served(), Served::default());
    }
}
