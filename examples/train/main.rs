//! Trains a small network on handwritten digits, with every activation and gradient an array made in the step.
//!
//! ```text
//! cargo run --release --example train
//! cargo run --release --example train -- --device host --alloc plain --json
//! cargo run --release --example train -- --functional
//! ```
//!
//! The reader's way: `step.rs`, where the scopes are; `network.rs`, which makes and drops the arrays; `buffers.rs`, the three
//! ways to get them; `training.rs`, the loop. `compute.rs` says what is asked of a machine, `host.rs` and `cuda.rs` do it, and
//! `train` below chooses one of the two at run time.

mod buffers;
#[path = "../common/mod.rs"]
mod common;
mod compute;
#[cfg(feature = "cuda")]
mod cuda;
mod data;
#[cfg(test)]
mod gradient_check;
mod host;
#[cfg(test)]
mod memory_check;
mod network;
mod report;
mod shapes;
mod step;
mod training;

use std::process::ExitCode;

use clap::Parser;

use crate::buffers::Alloc;
use crate::common::{DeviceChoice, Result};
use crate::compute::Compute;
use crate::report::Report;

/// Trains a small network on handwritten digits.
#[derive(Debug, Parser)]
struct Options {
    /// Where to train: auto (the first GPU, else the host), host or cuda:N.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Where the arrays of a step come from.
    #[arg(long, value_enum, default_value = "scoped")]
    alloc: Alloc,
    /// Replace weights and running means in each step by new arrays, as functional optimizers do, instead of writing into them.
    #[arg(long)]
    functional: bool,
    /// Passes over the training images.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..))]
    epochs: u16,
    /// Print one JSON object instead of a summary.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("train: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let report = train(options)?;
    if options.json {
        println!("{}", serde_json::to_string(&report)?)
    } else {
        println!("{report}")
    }
    Ok(())
}

/// The choice between a GPU and the host: all below is generic, and compiled for each of the two.
#[cfg(feature = "cuda")]
fn train(options: &Options) -> Result<Report> {
    match options.device.open_gpu(cuda::CudaCompute::new)? {
        Some(gpu) => train_on(&gpu, options),
        None => train_on(&host::HostCompute::new(), options),
    }
}

#[cfg(not(feature = "cuda"))]
fn train(options: &Options) -> Result<Report> {
    options.device.refuse_gpu()?;
    train_on(&host::HostCompute::new(), options)
}

fn train_on<C: Compute>(compute: &C, options: &Options) -> Result<Report> {
    Ok(Report::new(compute, options, &training::train(compute, options)?))
}
