//! Times a chain of dependent kernels, each of which writes a new array, against the same chain on preallocated arrays.
//!
//! ```text
//! cargo run --release --example step
//! cargo run --release --example step -- --layers 40 --elements 4096,262144,67108864 --json
//! ```
//!
//! `chain.rs` contains the timed code, `measure.rs` measures it, and `host.rs` and `cuda.rs` launch one layer.

mod chain;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "cuda")]
mod cuda;
mod host;
mod measure;

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Parser;

use crate::chain::Machine;
use crate::common::{DeviceChoice, Result};

/// Times a chain of dependent kernels: arrays made in the step, with and without a cache, against arrays made by hand.
#[derive(Debug, Parser)]
struct Options {
    /// Kernels in a step.
    #[arg(long, default_value = "100")]
    layers: NonZeroUsize,
    /// Numbers (f32) in each array; several lengths are measured one after the other.
    #[arg(long, value_delimiter = ',', default_value = "262144")]
    elements: Vec<NonZeroUsize>,
    /// Steps to time with each kind of array; fewer if they take long.
    #[arg(long, default_value = "200")]
    steps: NonZeroUsize,
    /// Where to compute: auto (the first GPU, else the host), host or cuda:N.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Print one JSON object for each length.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("step: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "cuda")]
fn run(options: &Options) -> Result<()> {
    match options.device.open_gpu(cuda::CudaMachine::new)? {
        Some(gpu) => measure_all(&gpu, options),
        None => measure_all(&host::HostMachine::new(), options),
    }
}

#[cfg(not(feature = "cuda"))]
fn run(options: &Options) -> Result<()> {
    options.device.refuse_gpu()?;
    measure_all(&host::HostMachine::new(), options)
}

fn measure_all<M: Machine>(machine: &M, options: &Options) -> Result<()> {
    for elements in &options.elements {
        let report = measure::measure(machine, options.layers.get(), elements.get(), options.steps.get())?;
        if options.json { println!("{}", serde_json::to_string(&report)?) } else { println!("{report}") }
    }
    Ok(())
}
