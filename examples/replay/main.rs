//! Replays the allocation history of a program, and prints how much memory its arrays needed, how long allocations took, and how
//! often the device was called.
//!
//! ```text
//! cargo run --release --example replay -- examples/traces/*.csv.gz
//! cargo run --release --example replay -- examples/traces/gpt2_varlen.csv.gz --device cuda:0 --policy keyed --json
//! ```
//!
//! Read `target.rs` first, where a trace is replayed, and then `report.rs`, which prints the result. The replay itself is the module
//! `replay` of the crate `gpucache-report`, which programs can use on their own.

#[path = "../common/mod.rs"]
#[cfg_attr(feature = "cuda", allow(dead_code, reason = "only programs that compute need CUDA's libraries"))]
mod common;
mod report;
mod target;

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gpucache_report::replay::{History, Policy};

use crate::common::Result;
use crate::report::Report;
use crate::target::{Limit, Target};

/// Replays allocation traces: each step is one entry of a scope, and what is alive when a pass ends is freed then. In a trace that
/// knows scopes, each is entered where it was. All threads' events are replayed on one, in their order.
///
/// An allocation is one operation, and so is a free; a trace's operations are its lines. The steady state is the last three
/// steps of a pass; its time is that of the engine alone, entering and leaving the scope included, without looking at
/// contents. Contents are looked at in a run of their own before (on hosts and GPUs, in the first and the last pass). Live
/// bytes count each allocation rounded up to 256.
///
/// Which part of the allocations was planned, came from the scope's lists, or from the device's range, is said of the
/// steady state of the last timed pass; deviations from the plan and the time spent on planning are of all timed passes.
///
/// The exit status says whether every allocation found memory.
#[derive(Debug, Parser)]
struct Options {
    /// Files with a trace: `step,op,id,bytes,stream` with more columns or without, as GPUCACHE_TRACE has it written, or the log
    /// of RMM's logging_resource_adaptor; packed by gzip or not.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Where: virtual (addresses without memory), host, cuda:N, or auto (the first GPU, else the host).
    #[arg(long, default_value = "virtual")]
    device: Target,
    /// What serves the arrays: a layout planned for the scope's order (auto), the scope's lists by exact size (keyed), the device's
    /// range of addresses (range), or the device, for each array anew (direct).
    #[arg(long, default_value = "auto", value_parser = policies())]
    policy: Policy,
    /// Memory that the device may have: bytes, or a multiple of the trace's peak live bytes, as in 1.02x.
    #[arg(long)]
    limit: Option<Limit>,
    /// How often each trace is replayed; if more than once, the first pass is not timed.
    #[arg(long, default_value = "5")]
    passes: NonZeroUsize,
    /// Print one JSON object for each trace.
    #[arg(long)]
    json: bool,
}

fn policies() -> impl TypedValueParser<Value = Policy> {
    PossibleValuesParser::new(Policy::ALL.map(Policy::name)).try_map(|name| name.parse::<Policy>())
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replay: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut failed = 0;
    for (index, path) in options.traces.iter().enumerate() {
        let history = History::read(path)?;
        let report = target::replay(options, &history)?;
        failed += report.out_of_memory;
        if index == 0 && !options.json {
            writeln!(out, "{}", Report::HEAD)?;
        }
        let line = if options.json { serde_json::to_string(&report)? } else { report.to_string() };
        writeln!(out, "{line}")?;
    }
    match failed {
        0 => Ok(()),
        _ => Err(format!("{failed} allocations found no memory; they were skipped").into()),
    }
}
