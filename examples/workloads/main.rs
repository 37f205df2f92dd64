//! Measures how well gpucache serves ordinary kinds of programs: trainings, servers, solvers and simulations. The programs compute
//! nothing. They allocate and drop arrays of random sizes in the order in which such programs do, on a device without memory.
//!
//! ```text
//! cargo run --release -p gpucache-tools --example workloads
//! cargo run --release -p gpucache-tools --example workloads -- --program experts --mode step --seeds 20 --verbose
//! ```
//!
//! Read `tape.rs` first, on which a program allocates, and then one of the programs, such as `training/shapes.rs`. `network.rs` and
//! `trainer.rs` have the sizes and the order of a training step.

mod figures;
mod network;
mod other;
mod program;
mod run;
mod serving;
mod tape;
mod trainer;
mod training;
mod turn;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use rayon::prelude::*;

use crate::figures::{Figures, Row};
use crate::run::{Mode, Run, chosen};

/// The programs only print errors. A run's error crosses threads.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Measures how well gpucache serves ordinary kinds of programs, on a device without memory.
///
/// Each program runs with several seeds and in two modes. In the mode `step`, each step of the program (or each request) is an entry of a
/// scope. In the mode `auto`, the program has no scope and calls `gpucache::auto_scope()`. Live bytes count each allocation rounded up to
/// 256 bytes.
///
/// The table shows means over the seeds: the steps of a run, its allocations per step and its peak of live memory; the share of allocations
/// that a plan served, from step 4 on and in the last half of the steps; the most reserved memory divided by the most live memory, in the
/// last half and in the whole run, with the worst seed of each; the pieces of memory that the device mapped and unmapped in the last
/// half; and the sum of allocations that failed.
#[derive(Debug, Parser)]
struct Options {
    /// Number of seeds of each program.
    #[arg(long, default_value = "6")]
    seeds: u64,
    /// Programs whose names contain this text. May be repeated. Without it, all programs run.
    #[arg(long, value_name = "NAME")]
    program: Vec<String>,
    /// Only this mode.
    #[arg(long)]
    mode: Option<Mode>,
    /// Limit of the device's memory, as a multiple of the program's peak of live memory. A program goes on after a failed allocation, as
    /// if the array had no bytes.
    #[arg(long, value_name = "FACTOR")]
    limit: Option<f64>,
    /// Print one JSON object for each row instead of a table.
    #[arg(long)]
    json: bool,
    /// Print a line for each seed too.
    #[arg(long)]
    verbose: bool,
    /// Performs one run in this process, with this seed, and prints its figures. The program starts itself so.
    #[arg(long, hide = true, value_name = "SEED")]
    only: Option<u64>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match options.only {
        Some(seed) => only(&options, seed),
        None => table(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("workloads: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One run in this process.
fn only(options: &Options, seed: u64) -> Result<()> {
    let program = chosen(&options.program)
        .into_iter()
        .find(|program| Some(program.name) == options.program.first().map(String::as_str));
    let (Some(program), Some(mode)) = (program, options.mode) else { return Err("name a program and a mode".into()) };
    let figures = Run { program, seed, mode, limit: options.limit }.perform()?;
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

fn table(options: &Options) -> Result<()> {
    let programs = chosen(&options.program);
    let modes = options.mode.map_or(vec![Mode::Step, Mode::Auto], |mode| vec![mode]);
    let rows = modes.iter().flat_map(|mode| programs.iter().map(move |program| (*program, *mode)));
    let runs = rows.flat_map(|(program, mode)| {
        (1..=options.seeds).map(move |seed| Run { program, seed, mode, limit: options.limit })
    });
    let runs: Vec<Run> = runs.collect();
    let figures: Vec<Figures> = runs.par_iter().with_max_len(1).map(Run::perform_apart).collect::<Result<_>>()?;
    let mut out = std::io::stdout().lock();
    if !options.json {
        writeln!(out, "{}", Row::HEAD)?;
    }
    let print = |out: &mut std::io::StdoutLock<'_>, row: &Row| -> Result<()> {
        let line = if options.json { serde_json::to_string(row)? } else { row.to_string() };
        Ok(writeln!(out, "{line}")?)
    };
    let mut rows = Vec::new();
    for (runs, figures) in runs.chunks(options.seeds as usize).zip(figures.chunks(options.seeds as usize)) {
        let Some(run) = runs.first() else { continue };
        if options.verbose {
            for (run, figures) in runs.iter().zip(figures) {
                print(&mut out, &Row::of(&format!("  seed {}", run.seed), run.mode.name(), &[*figures]))?;
            }
        }
        let row = Row::of(run.program.name, run.mode.name(), figures);
        print(&mut out, &row)?;
        rows.push(row);
    }
    for mode in modes {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.mode == mode.name()).collect();
        print(&mut out, &Row::mean(mode.name(), &rows))?;
    }
    Ok(())
}
