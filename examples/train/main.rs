//! Trains a small network on handwritten digits. Each step allocates its activations and gradients anew.
//!
//! ```text
//! cargo run --release --example train
//! cargo run --release --example train -- --device host --alloc plain --json
//! cargo run --release --example train -- --functional
//! cargo run --release --example train -- --graph
//! ```
//!
//! Read the files in this order: `step.rs` has the scopes, `network.rs` allocates and drops the arrays, `buffers.rs` has three ways to
//! allocate them, and `training.rs` is the loop. `compute.rs` lists the operations, `host.rs` and `cuda.rs` implement them, and the
//! function `train` below chooses one of the two at run time. `without.rs` measures the same training without the cache. With `--graph`,
//! `captured.rs` runs each step as a graph, and `beside.rs` compares it with the other ways to allocate.

mod beside;
mod buffers;
mod captured;
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
mod without;

use std::process::ExitCode;

use clap::Parser;

use crate::beside::Beside;
use crate::buffers::Alloc;
use crate::common::{DeviceChoice, Result};
use crate::compute::Compute;
use crate::report::Report;
use crate::without::Comparison;

/// Trains a small network on handwritten digits, and compares its memory and time with a training without the cache.
#[derive(Debug, Parser)]
struct Options {
    /// Where to train: auto (the first GPU, or the host if there is none), host, or cuda:N.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// How the arrays of a step are allocated.
    #[arg(long, value_enum, default_value = "scoped")]
    alloc: Alloc,
    /// Allocate new weights and optimizer moments in each step, as functional optimizers do, instead of updating them in place.
    #[arg(long)]
    functional: bool,
    /// Run each step as a graph of a captured scope, and compare its speed and its losses with the other ways to allocate.
    #[arg(long, conflicts_with_all = ["functional", "alloc"])]
    graph: bool,
    /// How often to train on all images.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    epochs: u16,
    /// Print one JSON object, without the comparison.
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
        println!("{}", report.to_json());
        return Ok(());
    }
    println!("{report}");
    if options.graph {
        println!("\n{}", Beside::measure(&report, options)?);
        return Ok(());
    }
    if let Some(comparison) = Comparison::measure(&report, options)? {
        println!("\n{comparison}");
    }
    Ok(())
}

/// Chooses between a GPU and the host. All code below is generic, and compiled for each of the two.
#[cfg(feature = "cuda")]
fn train(options: &Options) -> Result<Report> {
    match options.device.open_gpu(|ordinal| cuda::CudaCompute::new(ordinal, options.graph))? {
        Some(gpu) => train_on(&gpu, options),
        None => train_on(&host(options)?, options),
    }
}

#[cfg(not(feature = "cuda"))]
fn train(options: &Options) -> Result<Report> {
    options.device.refuse_gpu()?;
    train_on(&host(options)?, options)
}

/// The host's default stream does each operation at once, so only another stream can be captured.
fn host(options: &Options) -> Result<host::HostCompute> {
    Ok(if options.graph {
        host::HostCompute::on(gpucache::device::Host::new_stream()?)
    } else {
        host::HostCompute::new()
    })
}

fn train_on<C: Compute>(compute: &C, options: &Options) -> Result<Report> {
    Ok(Report::new(compute, options, &training::train(compute, options)?))
}
