//! Finds out how much memory a training needs on a GPU, without a GPU: on a device that has addresses and no memory behind them.
//!
//! ```text
//! cargo run --release --example dry_run
//! cargo run --release --example dry_run -- --functional --json
//! GPUCACHE_TRACE=run.csv cargo run --release --example train
//! cargo run --release --example dry_run -- run.csv
//! ```
//!
//! Without a file it runs the training of the example `train`. The code is the same, except that `uncomputed.rs` computes nothing. Then
//! `report.rs` replays the recorded allocations under each policy. With a file, it replays those of the file.

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "there is no device to choose")]
mod common;
mod report;
mod uncomputed;

#[path = "../train/buffers.rs"]
#[allow(dead_code, reason = "arrays are allocated in one way only")]
mod buffers;
#[path = "../train/captured.rs"]
#[allow(dead_code, reason = "nothing is captured")]
mod captured;
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
#[allow(dead_code, reason = "nothing is computed, so nothing is learned")]
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

/// How many events of the training are kept: far more than there are.
const EVENTS: usize = 1 << 21;

/// Finds out how much memory a training needs on a GPU: under each policy, and at the smallest limit that suffices. No GPU is needed.
///
/// Without a file, it runs the training of `train` with the same options, and computes nothing. Reserved bytes are the GPU's pages of
/// 2 MiB, plus the arrays outside of scopes.
#[derive(Debug, Parser)]
struct Options {
    /// A trace of another run: a file of GPUCACHE_TRACE, or any other trace that `replay` reads.
    #[arg(value_name = "TRACE", conflicts_with_all = ["functional", "epochs"])]
    file: Option<PathBuf>,
    /// Arrays come from scopes, because the policies of scopes are compared.
    #[arg(skip = Alloc::Scoped)]
    alloc: Alloc,
    /// Allocate new weights and optimizer moments in each step, as `train --functional` does.
    #[arg(long)]
    functional: bool,
    /// A graph has the memory of the step that it repeats.
    #[arg(skip)]
    graph: bool,
    /// How often to train on all images.
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
    // The trace may be of a host, whose pages are smaller than those of a GPU.
    Report::new(&History::read(path)?.with_page_bytes(report::PAGE), None)
}

/// Runs the training of `train`, and replays its allocations.
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
