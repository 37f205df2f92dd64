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
#[path = "../common/limit.rs"]
mod limit;
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
use crate::limit::Limit;
use crate::report::Report;
use crate::target::Target;

/// Replays allocation traces, under any policy and memory limit.
///
/// Each step of a trace is one entry of a scope. If the trace names scopes, each is entered where the program entered it. The events of all
/// threads are replayed on one thread, in their order. Arrays that are alive when a pass ends are freed then.
///
/// An allocation is one operation, and a free is another one. The steady state is the last three steps of a pass. Its time is the time of
/// gpucache alone: allocations, frees, and entering and leaving scopes. On hosts and GPUs, a separate run checks the contents of
/// arrays first, in its first and last pass. Live bytes count each allocation rounded up to 256 bytes.
///
/// The shares of allocations served by a plan, by lists and by the range are those of the steady state in the last timed pass. Deviations from
/// the plan, and the time for planning, are sums over all timed passes.
///
/// The exit status is 0 if every allocation got memory.
#[derive(Debug, Parser)]
struct Options {
    /// Traces: files of GPUCACHE_TRACE, files with at least the columns `step,op,id,bytes,stream`, or logs of RMM's
    /// logging_resource_adaptor. Each may be compressed with gzip.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Where to replay: virtual (addresses without memory), host, cuda:N, or auto (the first GPU, or the host if there is none).
    #[arg(long, default_value = "virtual")]
    device: Target,
    /// How arrays get memory: from a planned layout (auto), from lists by exact size (keyed), from the device's range of
    /// addresses (range), or each from the device itself (direct).
    #[arg(long, default_value = "auto", value_parser = policies())]
    policy: Policy,
    /// Limit of the device's memory: 20GiB, 500MB, 80% of the device (not of a virtual one), or a multiple of the trace's peak live bytes,
    /// such as 1.02x. With "soft " in front it is a soft limit (not of a virtual device).
    #[arg(long)]
    limit: Option<Limit>,
    /// How often to replay each trace. If more than once, the first pass is not timed.
    #[arg(long, default_value = "5")]
    passes: NonZeroUsize,
    /// Replay all steps of all passes in one entry of one scope, like a program with a scope around `main`.
    #[arg(long)]
    one_entry: bool,
    /// Print one JSON object for each trace instead of a table.
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
        let history = if options.one_entry { history.in_one_entry() } else { history };
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
