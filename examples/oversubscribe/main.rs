//! Trains a small GPT, optionally under a limit of the device's memory. One store keeps all of its arrays.
//!
//! ```text
//! cargo run --release --example oversubscribe
//! cargo run --release --example oversubscribe -- --device host --layers 4 --width 128 --json
//! cargo run --release --example oversubscribe -- --layers 48 --width 2048 --heads 16 --context 512 --batch 2 --steps 20
//! ```
//!
//! Read `training.rs` first: the step with its scope, and the loop. The network is in the folder `gpt`, whose `mod.rs` names its files in
//! the order to read them; `store.rs` there keeps all arrays that outlive an operation. `train` below chooses between a GPU and the host at
//! run time.

#[path = "../common/mod.rs"]
mod common;
#[path = "../gpt/mod.rs"]
#[allow(dead_code, reason = "some operations are for the program `parallel`")]
mod gpt;
#[cfg(test)]
mod gradient_check;
#[path = "../common/limit.rs"]
mod limit;
#[cfg(test)]
mod plain;
mod report;
mod sample;
mod training;

use std::process::ExitCode;

use clap::Parser;

use crate::common::{DeviceChoice, Result};
use crate::gpt::compute::Compute;
#[cfg(feature = "cuda")]
use crate::gpt::sizes::ON_A_GPU;
use crate::gpt::sizes::SizeOptions;
use crate::gpt::store::Placement;
use crate::limit::Limit;
use crate::report::Report;

/// Trains a small GPT on plays of Shakespeare, letter by letter, and then lets it write some text.
///
/// With the same options on the same machine, losses and text are equal to the last bit, whatever the limit and the
/// placement.
#[derive(Clone, Debug, Parser)]
struct Options {
    /// Where to train: auto (the first GPU, or the host if there is none), host, or cuda:N.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Number of training steps.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    #[command(flatten)]
    sizes: SizeOptions,
    /// Seed of the random parameters and batches.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Limit of the device's memory: 20GiB, 500MB, 80% of the device, with "soft " in front for a soft limit, or a share of the memory
    /// that training takes without a limit, such as 0.6x. Three steps without a limit measure this memory first.
    #[arg(long)]
    limit: Option<Limit>,
    /// Where arrays are while no operation uses them.
    #[arg(long, value_enum, default_value = "auto")]
    placement: Placement,
    /// Print one JSON object instead of a summary.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("oversubscribe: {error}");
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

/// Chooses between a GPU and the host. All code below is generic, and compiled for both.
#[cfg(feature = "cuda")]
fn train(options: &Options) -> Result<Report> {
    match options.device.open_gpu(gpt::cuda::CudaCompute::new)? {
        Some(gpu) => train_on(&gpu, &Options { sizes: options.sizes.or(ON_A_GPU), ..options.clone() }),
        None => train_on(&gpt::host::HostCompute::new(), options),
    }
}

#[cfg(not(feature = "cuda"))]
fn train(options: &Options) -> Result<Report> {
    options.device.refuse_gpu()?;
    train_on(&gpt::host::HostCompute::new(), options)
}

fn train_on<C: Compute>(compute: &C, options: &Options) -> Result<Report> {
    Ok(Report::new(compute, options, training::train(compute, options)?))
}
