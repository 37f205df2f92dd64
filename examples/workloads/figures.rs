//! The figures of a run, and of several runs of one program.

use serde::{Deserialize, Serialize};

use crate::tape::{Step, Whole};

/// The first plan serves the fourth step at the latest if all steps are alike, so shares leave out so many steps.
const LEARNING: usize = 3;

/// The figures of a run. The late steps are the last half of all steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) steps: f64,
    pub(crate) allocations_per_step: f64,
    pub(crate) peak_live_bytes: f64,
    /// The share of allocations that a plan served, from step 4 on.
    pub(crate) planned_share: f64,
    pub(crate) late_planned_share: f64,
    /// The most reserved bytes, divided by the most live bytes.
    pub(crate) reserved_over_live: f64,
    pub(crate) late_reserved_over_live: f64,
    /// Pieces of memory that the device provided or took back.
    pub(crate) late_pieces: f64,
    /// Allocations that found no memory.
    pub(crate) out_of_memory: f64,
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// The most of these steps.
pub(crate) fn most(steps: &[Step], of: fn(&Step) -> u64) -> u64 {
    steps.iter().map(of).max().unwrap_or(0)
}

impl Figures {
    pub(crate) fn of(run: &Whole) -> Self {
        let steps = &run.steps[..];
        let half = steps.len() / 2;
        // The sums at the end of the first steps.
        let after = |steps: &[Step]| steps.last().copied().unwrap_or_default();
        let (end, middle) = (after(steps), after(&steps[..half]));
        let planned = |begin: Step| ratio(end.planned - begin.planned, end.allocations - begin.allocations);
        let reserved = |steps: &[Step], bytes: u64| ratio(bytes, most(steps, |step| step.peak_live_bytes));
        Self {
            steps: steps.len() as f64,
            allocations_per_step: ratio(end.allocations, steps.len() as u64),
            peak_live_bytes: most(steps, |step| step.peak_live_bytes) as f64,
            planned_share: planned(after(&steps[..LEARNING.min(half)])),
            late_planned_share: planned(middle),
            reserved_over_live: reserved(steps, run.peak_reserved_bytes),
            late_reserved_over_live: reserved(&steps[half..], most(&steps[half..], |step| step.peak_reserved_bytes)),
            late_pieces: (end.pieces - middle.pieces) as f64,
            out_of_memory: run.failed as f64,
        }
    }

    /// The mean of each figure.
    pub(crate) fn mean(all: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len().max(1) as f64;
        Self {
            steps: mean(|one| one.steps),
            allocations_per_step: mean(|one| one.allocations_per_step),
            peak_live_bytes: mean(|one| one.peak_live_bytes),
            planned_share: mean(|one| one.planned_share),
            late_planned_share: mean(|one| one.late_planned_share),
            reserved_over_live: mean(|one| one.reserved_over_live),
            late_reserved_over_live: mean(|one| one.late_reserved_over_live),
            late_pieces: mean(|one| one.late_pieces),
            out_of_memory: mean(|one| one.out_of_memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step after which these sums hold.
    fn step(allocations: u64, planned: u64, pieces: u64, [live, reserved]: [u64; 2]) -> Step {
        Step { allocations, planned, pieces, peak_live_bytes: live, peak_reserved_bytes: reserved }
    }

    #[test]
    fn shares_leave_out_the_first_steps_and_peaks_are_those_of_their_steps() {
        let first = (1..=4).map(|index| step(10 * index, 0, index, [100, 300]));
        let late = (1..=4).map(|index| step(40 + 10 * index, 5 * index, 4, [50, 60]));
        let whole = Whole { steps: first.chain(late).collect(), failed: 7, peak_reserved_bytes: 310 };
        let figures = Figures::of(&whole);
        assert_eq!((figures.steps, figures.allocations_per_step, figures.peak_live_bytes), (8.0, 10.0, 100.0));
        assert_eq!((figures.planned_share, figures.late_planned_share), (0.4, 0.5));
        assert_eq!((figures.reserved_over_live, figures.late_reserved_over_live), (3.1, 1.2));
        assert_eq!((figures.late_pieces, figures.out_of_memory), (0.0, 7.0));
    }

    #[test]
    fn a_run_without_steps_has_no_figures() {
        let whole = Whole { steps: Vec::new(), failed: 0, peak_reserved_bytes: 0 };
        assert_eq!(Figures::of(&whole), Figures::default());
    }

    #[test]
    fn a_mean_is_one_of_each_figure() {
        let [one, other] = [1.0, 4.0].map(|steps| Figures { steps, late_pieces: 3.0, ..Figures::default() });
        assert_eq!(Figures::mean(&[one, other]), Figures { steps: 2.5, late_pieces: 3.0, ..Figures::default() });
    }
}
