//! The figures of a run, and of several runs of one program.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::tape::{Step, Whole};

/// A plan can serve from the third repetition on, so shares are counted behind this many steps.
const LEARNING: usize = 3;

/// The figures of a run with one seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) steps: usize,
    pub(crate) allocations: u64,
    /// The share of allocations that a plan served, from step 4 on and in the last half of the steps.
    pub(crate) planned: f64,
    pub(crate) planned_late: f64,
    /// The most reserved bytes, divided by the most live bytes: in the whole run and in the last half of the steps.
    pub(crate) reserved: f64,
    pub(crate) reserved_late: f64,
    /// Pieces of memory that the device mapped and unmapped, and its allocations and frees, in the last half of the steps.
    pub(crate) pieces_late: u64,
    /// Allocations that found no memory.
    pub(crate) failed: u64,
    pub(crate) most_live_bytes: u64,
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// The most of these steps.
fn most(steps: &[Step], of: fn(&Step) -> u64) -> u64 {
    steps.iter().map(of).max().unwrap_or(0)
}

impl Figures {
    pub(crate) fn of(run: &Whole) -> Self {
        let steps = &run.steps[..];
        let half = steps.len() / 2;
        let at = |index: usize| index.checked_sub(1).and_then(|index| steps.get(index)).copied().unwrap_or_default();
        let end = at(steps.len());
        let planned = |begin: Step| ratio(end.planned - begin.planned, end.allocations - begin.allocations);
        let (late, live, reserved) =
            (&steps[half..], |step: &Step| step.most_live_bytes, |step: &Step| step.most_reserved_bytes);
        Self {
            steps: steps.len(),
            allocations: end.allocations,
            planned: planned(at(LEARNING.min(half))),
            planned_late: planned(at(half)),
            reserved: ratio(run.most_reserved_bytes, most(steps, live)),
            reserved_late: ratio(most(late, reserved), most(late, live)),
            pieces_late: end.pieces - at(half).pieces,
            failed: run.failed,
            most_live_bytes: most(steps, live),
        }
    }
}

/// The figures of a program in one mode, over all seeds: means, if no other is named.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) program: String,
    pub(crate) mode: String,
    pub(crate) seeds: usize,
    pub(crate) steps: f64,
    pub(crate) allocations_per_step: f64,
    pub(crate) most_live_bytes: f64,
    pub(crate) planned: f64,
    pub(crate) planned_late: f64,
    pub(crate) reserved: f64,
    pub(crate) worst_reserved: f64,
    pub(crate) reserved_late: f64,
    pub(crate) worst_reserved_late: f64,
    pub(crate) pieces_late: f64,
    /// The sum.
    pub(crate) failed: u64,
}

impl Row {
    pub(crate) const HEAD: &str = concat!(
        "                                       allocs  peak |  planned %    |  reserved / live, last half, whole run | pieces\n",
        "program                 mode    steps   /step   MiB | from 4  half  |  mean   worst     mean   worst         | in half failed"
    );

    pub(crate) fn of(program: &str, mode: &str, runs: &[Figures]) -> Self {
        let count = runs.len().max(1) as f64;
        let mean = |of: fn(&Figures) -> f64| runs.iter().map(of).sum::<f64>() / count;
        let worst = |of: fn(&Figures) -> f64| runs.iter().map(of).fold(0.0, f64::max);
        Self {
            program: program.to_owned(),
            mode: mode.to_owned(),
            seeds: runs.len(),
            steps: mean(|run| run.steps as f64),
            allocations_per_step: mean(|run| run.allocations as f64 / run.steps.max(1) as f64),
            most_live_bytes: mean(|run| run.most_live_bytes as f64),
            planned: mean(|run| run.planned),
            planned_late: mean(|run| run.planned_late),
            reserved: mean(|run| run.reserved),
            worst_reserved: worst(|run| run.reserved),
            reserved_late: mean(|run| run.reserved_late),
            worst_reserved_late: worst(|run| run.reserved_late),
            pieces_late: mean(|run| run.pieces_late as f64),
            failed: runs.iter().map(|run| run.failed).sum(),
        }
    }

    /// The means of several rows.
    pub(crate) fn mean(mode: &str, rows: &[&Row]) -> Self {
        let count = rows.len().max(1) as f64;
        let mean = |of: fn(&Row) -> f64| rows.iter().map(|row| of(row)).sum::<f64>() / count;
        Self {
            program: "mean".to_owned(),
            mode: mode.to_owned(),
            seeds: rows.first().map_or(0, |row| row.seeds),
            steps: mean(|row| row.steps),
            allocations_per_step: mean(|row| row.allocations_per_step),
            most_live_bytes: mean(|row| row.most_live_bytes),
            planned: mean(|row| row.planned),
            planned_late: mean(|row| row.planned_late),
            reserved: mean(|row| row.reserved),
            worst_reserved: mean(|row| row.worst_reserved),
            reserved_late: mean(|row| row.reserved_late),
            worst_reserved_late: mean(|row| row.worst_reserved_late),
            pieces_late: mean(|row| row.pieces_late),
            failed: rows.iter().map(|row| row.failed).sum(),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = self.most_live_bytes / f64::from(1 << 20);
        write!(
            f,
            "{:23} {:6} {:6.0} {:7.0} {mebibytes:5.0} |",
            self.program, self.mode, self.steps, self.allocations_per_step
        )?;
        write!(f, " {:5.1} {:6.1}  |", 100.0 * self.planned, 100.0 * self.planned_late)?;
        write!(
            f,
            " {:6.3} {:6.3}   {:6.3} {:6.3}",
            self.reserved_late, self.worst_reserved_late, self.reserved, self.worst_reserved
        )?;
        write!(f, " | {:7.0} {:6}", self.pieces_late, self.failed)
    }
}
