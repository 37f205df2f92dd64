//! How much memory a training will take on a GPU, found out without one: on a device that has addresses and no memory behind them.
//!
//! ```text
//! cargo run --release --example dry_run
//! cargo run --release --example dry_run -- --functional --json
//! GPUCACHE_TRACE=run.csv cargo run --release --example train
//! cargo run --release --example dry_run -- run.csv
//! ```
//!
//! Without a file it runs the training of the example `train`, whose code this is but for the arithmetic: `uncomputed.rs`. `report.rs`
//! replays what was allocated there, or in the run that a file tells of, under each policy.

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "there is no device to choose")]
mod common;
mod report;
mod uncomputed;

#[path = "../train/buffers.rs"]
#[allow(dead_code, reason = "arrays are made one way alone")]
mod buffers;
#[path = "../train/compute.rs"]
#[allow(dead_code, reason = "nothing is computed, and the device has no name")]
mod compute;
#[path = "../train/data.rs"]
mod data;
#[path = "../train/network.rs"]
mod network;
#[path = "../train/shapes.rs"]
mod shapes;
#[path = "../train/step.rs"]
mod step;
#[path = "../train/training.rs"]
#[allow(dead_code, reason = "how well it learns is not asked, as nothing does")]
mod training;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use gpucache::{prelude::*, trace};
use gpucache_report::Run;
use gpucache_report::replay::History;

use crate::buffers::Alloc;
use crate::common::Result;
use crate::report::Report;
use crate::uncomputed::Uncomputed;

/// Events of the training that are kept: far more than it has.
const EVENTS: usize = 1 << 21;

/// How much memory a training takes on a GPU, under each policy, and with how little it would do. No GPU is needed.
///
/// Without a file it is the training of `train` with the same options. Bytes are those of a GPU's pages, of 2 MiB, and those of arrays
/// outside of scopes.
#[derive(Debug, Parser)]
struct Options {
    /// A trace of another run: what GPUCACHE_TRACE had written, or anything else that `replay` reads.
    #[arg(value_name = "TRACE", conflicts_with_all = ["functional", "epochs"])]
    file: Option<PathBuf>,
    /// Where the arrays of a step come from: this is what policies are compared for.
    #[arg(skip = Alloc::Scoped)]
    alloc: Alloc,
    /// Replace weights and running means in each step by new arrays, as `train --functional` does.
    #[arg(long)]
    functional: bool,
    /// Passes over the training images, as of `train`.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..))]
    epochs: u16,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dry_run: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let report = match &options.file {
        Some(path) => of_file(path)?,
        None => of_training(options)?,
    };
    if options.json {
        println!("{}", serde_json::to_string(&report)?)
    } else {
        println!("{report}")
    }
    Ok(())
}

fn of_file(path: &Path) -> Result<Report> {
    Report::new(&History::read(path)?, None)
}

/// Runs the training of `train`, and replays what it allocated.
fn of_training(options: &Options) -> Result<Report> {
    let compute = Uncomputed::new();
    trace::start(EVENTS);
    let trained = training::train(&compute, options);
    let run = Run::from(&trace::stop());
    trained?;
    if run.lost > 0 {
        return Err(format!("the trace had no room for {} events: say fewer --epochs", run.lost).into());
    }
    let name = if options.functional { "train --functional" } else { "train" };
    let peak_bytes = compute::Compute::device(&compute).memory().peak_bytes;
    Report::new(&History::of(name, &run)?, Some(peak_bytes))
}
