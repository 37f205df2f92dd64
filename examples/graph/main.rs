//! Writes tokens in batches of varying size, as a server does: each batch size has a CUDA graph of its own, and all graphs share their memory.
//!
//! ```text
//! cargo run --release --example graph
//! cargo run --release --example graph -- --device cuda:0 --rows 256 --width 1024 --blocks 24 --order up --json
//! cargo run --release --example graph -- --device virtual --rows 256 --width 1024 --blocks 24
//! ```
//!
//! `model.rs` has the step, `server.rs` runs it in a captured scope, and `measure.rs` measures memory and time. `host.rs`, `cuda.rs` and
//! `uncomputed.rs` do the arithmetic, the last one without doing any. `compare.py` measures the same with PyTorch.

#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "cuda")]
mod cuda;
mod host;
mod measure;
mod model;
mod report;
mod server;
mod uncomputed;

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Parser;

use crate::common::{DeviceChoice, Result};
use crate::host::HostMachine;
use crate::model::{Machine, Sizes};
use crate::uncomputed::Uncomputed;

/// Runs a decoder's step in several batch sizes, each as a graph, and reports memory and time.
#[derive(Debug, Parser)]
struct Options {
    /// Where to compute: auto (the first GPU, or the host if there is none), host, cuda:N, or virtual (nothing is computed, and there is no
    /// memory).
    #[arg(long, default_value = "auto")]
    device: Place,
    /// The largest batch size. Each smaller one occurs, too.
    #[arg(long, default_value = "16")]
    batches: NonZeroUsize,
    /// Rows of each sequence in a batch.
    #[arg(long, default_value = "64")]
    rows: NonZeroUsize,
    /// Numbers (f32) in a row, and the number of different tokens.
    #[arg(long, default_value = "32")]
    width: NonZeroUsize,
    /// Blocks of the decoder. Each has a norm, a product with weights, and an activation with a state.
    #[arg(long, default_value = "12")]
    blocks: NonZeroUsize,
    /// The order in which the batch sizes occur for the first time.
    #[arg(long, value_enum, default_value = "random")]
    order: Order,
    /// Number of steps with random batch sizes, once each size has a graph.
    #[arg(long, default_value = "500")]
    steps: usize,
    /// Seed of the weights and of the order.
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Print one JSON object instead of a summary.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Order {
    /// From the smallest to the largest.
    Up,
    /// From the largest to the smallest.
    Down,
    Random,
}

/// The argument of `--device`.
#[derive(Clone, Copy, Debug)]
enum Place {
    Real(DeviceChoice),
    Virtual,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "virtual" => Ok(Self::Virtual),
            _ => text.parse().map(Self::Real).map_err(|error| format!("{error}, or virtual")),
        }
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("graph: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    match options.device {
        Place::Virtual => report(&Uncomputed::new(), options),
        Place::Real(choice) => run_on(choice, options),
    }
}

#[cfg(feature = "cuda")]
fn run_on(choice: DeviceChoice, options: &Options) -> Result<()> {
    match choice.open_gpu(cuda::CudaMachine::new)? {
        Some(gpu) => report(&gpu, options),
        None => report(&HostMachine::new()?, options),
    }
}

#[cfg(not(feature = "cuda"))]
fn run_on(choice: DeviceChoice, options: &Options) -> Result<()> {
    choice.refuse_gpu()?;
    report(&HostMachine::new()?, options)
}

fn report<M: Machine>(machine: &M, options: &Options) -> Result<()> {
    let Options { batches, rows, width, blocks, .. } = options;
    let sizes = Sizes { batches: batches.get(), rows: rows.get(), width: width.get(), blocks: blocks.get() };
    let report = measure::measure(machine, sizes, options)?;
    if options.json {
        println!("{}", report.to_json())
    } else {
        println!("{report}")
    }
    Ok(())
}
