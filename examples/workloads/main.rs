//! Measures how well gpucache serves ordinary kinds of programs: trainings, servers, solvers and simulations. The programs compute
//! nothing. They allocate and drop arrays of random sizes in the order in which such programs do, on a device without memory.
//!
//! ```text
//! cargo run --release --example workloads
//! cargo run --release --example workloads -- --program experts --mode step --seeds 20 --verbose
//! ```
//!
//! Read `tape.rs` first, by which a program allocates, and then one of the programs, such as `training/shapes.rs`. `network.rs` and
//! `trainer.rs` have the sizes and the order of a training step.

mod figures;
mod network;
mod other;
mod program;
mod run;
mod serving;
mod table;
mod tape;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod trainer;
mod training;
mod turn;

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Parser;

use crate::run::{Mode, Run};

/// Runs on other threads return errors too.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Measures how well gpucache serves ordinary kinds of programs, on a device without memory.
///
/// Each program runs with several seeds and in two modes. In the mode `step`, each step (or request, or token) is an entry of a scope. In
/// the mode `auto`, the program has no scope and calls `gpucache::auto_scope()`. Live bytes count each allocation rounded up to 256 bytes.
///
/// The columns are means over the seeds, unless they name the worst seed. The last half of the steps is called late. A share of planned
/// allocations is the share that a plan served. Reserved / live is the most reserved memory, divided by the most live memory. Pieces
/// count the pieces of memory that the device mapped and unmapped, and the arrays that it allocated and freed itself. Failed
/// allocations found no memory.
///
/// The same seed gives the same program. gpucache limits its search for a good plan by time, so the figures of long steps can
/// differ a little between two runs.
#[derive(Debug, Parser)]
struct Options {
    /// Number of seeds of each program.
    #[arg(long, default_value = "6")]
    seeds: NonZeroUsize,
    /// Run only programs whose names contain this text. May be repeated.
    #[arg(long, value_name = "NAME")]
    program: Vec<String>,
    /// Run only this mode.
    #[arg(long)]
    mode: Option<Mode>,
    /// Limit of the device's memory, as a multiple of the program's peak of live memory. After a failed allocation the program continues
    /// as if the array had no bytes.
    #[arg(long, value_name = "FACTOR")]
    limit: Option<f64>,
    /// Print one JSON object for each row instead of a table.
    #[arg(long)]
    json: bool,
    /// Print a row for each seed too. In a table, print how each of its scopes plans at the end.
    #[arg(long)]
    verbose: bool,
    /// Perform one run in this process, and print its figures. The program starts itself with this option.
    #[arg(long, hide = true, value_name = "SEED", requires_all = ["program", "mode"])]
    only: Option<u64>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match options.only {
        Some(seed) => perform(&options, seed),
        None => table::print(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("workloads: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One run in this process.
fn perform(options: &Options, seed: u64) -> Result<()> {
    let named = program::all().find(|program| options.program.iter().any(|name| name == program.name));
    let (Some(program), Some(mode)) = (named, options.mode) else { return Err("no program has this name".into()) };
    let outcome = Run { program, seed, mode, limit: options.limit }.perform()?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}
