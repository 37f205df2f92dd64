//! Times a chain of dependent kernels, each of which writes a new array, against the same chain on preallocated arrays.
//!
//! ```text
//! cargo run --release --example step
//! cargo run --release --example step -- --layers 40 --elements 4096,262144,67108864 --json
//! cargo run --release --example step -- --graph --elements 4096,262144,4194304
//! ```
//!
//! `chain.rs` contains the timed code, `lane.rs` runs it in each mode, `measure.rs` measures it, and `host.rs` and `cuda.rs` launch one
//! layer. With `--graph` the chain is also captured as a graph: by a captured scope, and by hand.

mod chain;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "cuda")]
mod hand_graph;
mod host;
mod host_time;
mod lane;
mod measure;

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Parser;

use crate::chain::Machine;
use crate::common::{DeviceChoice, Result};
use crate::measure::Size;

/// Times a chain of dependent kernels on arrays that each step allocates, with and without the cache, and on preallocated arrays.
#[derive(Debug, Parser)]
struct Options {
    /// Number of kernels in a step.
    #[arg(long, default_value = "100")]
    layers: NonZeroUsize,
    /// Number of elements (f32) in each array. Several lengths are measured one after the other.
    #[arg(long, value_delimiter = ',', default_value = "262144")]
    elements: Vec<NonZeroUsize>,
    /// Number of timed steps for each kind of array. There are fewer if they take long.
    #[arg(long, default_value = "200")]
    steps: NonZeroUsize,
    /// Where to compute: auto (the first GPU, or the host if there is none), host, or cuda:N.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Also measure the chain as one graph: of a captured scope, and on a GPU captured by hand. All modes then run on a stream of their
    /// own, because the default stream cannot be captured.
    #[arg(long)]
    graph: bool,
    /// Print one JSON object for each length instead of a summary.
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
    match options.device.open_gpu(|ordinal| cuda::CudaMachine::new(ordinal, options.graph))? {
        Some(gpu) => measure_all(&gpu, options),
        None => measure_all(&host::HostMachine::new(options.graph)?, options),
    }
}

#[cfg(not(feature = "cuda"))]
fn run(options: &Options) -> Result<()> {
    options.device.refuse_gpu()?;
    measure_all(&host::HostMachine::new(options.graph)?, options)
}

fn measure_all<M: Machine>(machine: &M, options: &Options) -> Result<()> {
    let modes = if options.graph { M::GRAPH_MODES } else { M::MODES };
    for elements in &options.elements {
        let size = Size { layers: options.layers.get(), elements: elements.get(), steps: options.steps.get() };
        let report = measure::measure(machine, modes, size)?;
        if options.json { println!("{}", serde_json::to_string(&report)?) } else { println!("{report}") }
    }
    Ok(())
}
