//! Times streams that pass arrays to each other, with a scope and with plain cudarc, and counts the calls that order them.
//!
//! ```text
//! cargo run --release --example streams -- --streams 2,8,32 --json
//! ```
//!
//! In a step each stream writes some new arrays. Then it reads the arrays of the stream before it, and drops them while
//! these reads may still be running. `ring.rs` contains the timed code; `cuda.rs` and `host.rs` write or read one array.

#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "cuda")]
mod cuda;
mod host;
mod ring;

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Parser;

use crate::common::{DeviceChoice, Result};
use crate::ring::{Machine, Size, measure};

/// Times streams that pass arrays to each other.
#[derive(Debug, Parser)]
struct Options {
    /// Number of streams that share arrays. Several numbers are measured one after the other.
    #[arg(long, value_delimiter = ',', default_value = "2,8,32")]
    streams: Vec<NonZeroUsize>,
    /// Number of arrays that a stream allocates in a step.
    #[arg(long, default_value = "32")]
    arrays: NonZeroUsize,
    /// Number of elements (f32) in each array.
    #[arg(long, default_value = "4096")]
    elements: NonZeroUsize,
    /// Number of timed steps, with a scope and without.
    #[arg(long, default_value = "100")]
    steps: NonZeroUsize,
    /// Where to compute: auto (the first GPU, or the host if there is none), host, or cuda:N.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Print one JSON object for each number of streams instead of a summary.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("streams: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "cuda")]
fn run(options: &Options) -> Result<()> {
    match options.device.open_gpu(cuda::CudaMachine::new)? {
        Some(gpu) => measure_all(&gpu, options),
        None => measure_all(&host::HostMachine, options),
    }
}

#[cfg(not(feature = "cuda"))]
fn run(options: &Options) -> Result<()> {
    options.device.refuse_gpu()?;
    measure_all(&host::HostMachine, options)
}

fn measure_all<M: Machine>(machine: &M, options: &Options) -> Result<()> {
    for streams in &options.streams {
        let size = Size { streams: streams.get(), arrays: options.arrays.get(), elements: options.elements.get() };
        let report = measure(machine, size, options.steps.get())?;
        if options.json { println!("{}", report.to_json()) } else { println!("{report}") }
    }
    Ok(())
}
