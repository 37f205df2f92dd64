//! The table: a row for each program and mode, and the means of each mode.

use std::fmt;
use std::io::{StdoutLock, Write};

use rayon::prelude::*;
use serde::Serialize;

use crate::figures::Figures;
use crate::run::{Mode, Outcome, Run, chosen};
use crate::{Options, Result};

/// The figures of a program in one mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    program: String,
    mode: &'static str,
    /// The means over the seeds.
    #[serde(flatten)]
    mean: Figures,
    worst_reserved_over_live: f64,
    worst_late_reserved_over_live: f64,
}

const HEAD: &str = concat!(
    "                                    allocations  peak of |   % planned  | reserved / live, mean and worst | device\n",
    "program                mode   steps    per step live MiB | step 4+ late |      late          whole run    | pieces failed",
);

impl Row {
    fn of(program: impl Into<String>, mode: Mode, runs: &[Figures]) -> Self {
        let worst = |of: fn(&Figures) -> f64| runs.iter().map(of).fold(0.0, f64::max);
        Self {
            program: program.into(),
            mode: mode.name(),
            mean: Figures::mean(runs),
            worst_reserved_over_live: worst(|run| run.reserved_over_live),
            worst_late_reserved_over_live: worst(|run| run.late_reserved_over_live),
        }
    }

    /// The means of several rows.
    fn mean(mode: Mode, rows: &[Self]) -> Self {
        let means: Vec<Figures> = rows.iter().map(|row| row.mean).collect();
        let mean = |of: fn(&Self) -> f64| rows.iter().map(of).sum::<f64>() / rows.len().max(1) as f64;
        Self {
            worst_reserved_over_live: mean(|row| row.worst_reserved_over_live),
            worst_late_reserved_over_live: mean(|row| row.worst_late_reserved_over_live),
            ..Self::of("mean", mode, &means)
        }
    }

    fn print(&self, options: &Options, out: &mut StdoutLock<'_>) -> Result<()> {
        let line = if options.json { serde_json::to_string(self)? } else { self.to_string() };
        Ok(writeln!(out, "{line}")?)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, mode, mean, .. } = self;
        write!(f, "{program:22} {mode:4} {:7.0} {:11.0}", mean.steps, mean.allocations_per_step)?;
        write!(f, " {:8.0} |", mean.peak_live_bytes / f64::from(1 << 20))?;
        let [planned, late] = [mean.planned_share, mean.late_planned_share].map(|share| 100.0 * share);
        write!(f, " {planned:6.1} {late:5.1} |")?;
        write!(f, " {:7.3} {:7.3}", mean.late_reserved_over_live, self.worst_late_reserved_over_live)?;
        write!(f, " {:7.3} {:7.3} |", mean.reserved_over_live, self.worst_reserved_over_live)?;
        write!(f, " {:6.0} {:6.1}", mean.late_pieces, mean.out_of_memory)
    }
}

/// Performs all runs, as many at once as there are processors, and prints the table.
///
/// # Errors
/// A run failed, or nobody reads the table.
pub(crate) fn print(options: &Options) -> Result<()> {
    let out = &mut std::io::stdout().lock();
    if !options.json {
        writeln!(out, "{HEAD}")?;
    }
    for mode in options.mode.map_or(vec![Mode::Step, Mode::Auto], |mode| vec![mode]) {
        let runs = runs(options, mode);
        let outcomes: Vec<Outcome> = runs.par_iter().with_max_len(1).map(Run::perform_apart).collect::<Result<_>>()?;
        let seeds = options.seeds.get();
        let programs = runs.chunks(seeds).zip(outcomes.chunks(seeds));
        let rows = programs.map(|(runs, outcomes)| print_program(options, runs, outcomes, out));
        Row::mean(mode, &rows.collect::<Result<Vec<_>>>()?).print(options, out)?;
    }
    Ok(())
}

/// All seeds of each program, one program after the other.
fn runs(options: &Options, mode: Mode) -> Vec<Run> {
    let run = |program, seed| Run { program, seed, mode, limit: options.limit };
    let seeds = 1..=options.seeds.get() as u64;
    chosen(&options.program).flat_map(|program| seeds.clone().map(move |seed| run(program, seed))).collect()
}

/// Prints the row of a program whose runs differ only in their seeds.
fn print_program(options: &Options, runs: &[Run], outcomes: &[Outcome], out: &mut StdoutLock<'_>) -> Result<Row> {
    let Run { program, mode, .. } = runs[0];
    let seeds = if options.verbose { runs.len() } else { 0 };
    for (run, outcome) in runs.iter().zip(outcomes).take(seeds) {
        Row::of(format!("{}:{}", program.name, run.seed), mode, &[outcome.figures]).print(options, out)?;
        for plan in outcome.plans.iter().filter(|_| !options.json) {
            writeln!(out, "    {plan}")?;
        }
    }
    let figures: Vec<Figures> = outcomes.iter().map(|outcome| outcome.figures).collect();
    let row = Row::of(program.name, mode, &figures);
    row.print(options, out)?;
    Ok(row)
}
