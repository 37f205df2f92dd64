//! Trains a small GPT on several GPUs (data parallelism). Without GPUs, its ranks run on the host.
//!
//! ```text
//! cargo run --release --example parallel -- --gpus 2
//! cargo run --release --example parallel -- --gpus 4 --device host --shard --check
//! cargo run --release --example parallel -- --gpus 8 --shard --dry-run
//! cargo build --release --example parallel
//! torchrun --nproc-per-node 2 --no-python target/release/examples/parallel --shard
//! mpirun -n 2 target/release/examples/parallel
//! srun --ntasks 16 --gpus-per-node 8 target/release/examples/parallel
//! ```
//!
//! Read the files in this order: `training.rs`, the step with its scope, and the loop; `gradients.rs` and `buckets.rs`, which collect
//! gradients; `optimizer.rs`, the update, whole or of a part; `collectives.rs`, the calls that ranks make together, with `host_thread.rs`
//! for the host and `nccl.rs` for GPUs; `peers.rs`, how ranks meet, with `hub.rs` for threads, and `client.rs` and `server.rs` for processes;
//! `launcher.rs`, the variables of torchrun, mpirun and srun; `checks.rs`, which options fit together. `rank.rs` puts these together for one
//! rank. The network is in the folder `gpt`.

mod buckets;
mod checks;
mod client;
mod collectives;
#[path = "../common/mod.rs"]
mod common;
mod dry_run;
mod figures;
#[path = "../gpt/mod.rs"]
#[allow(dead_code, reason = "some operations are for the program `oversubscribe`")]
mod gpt;
mod gradients;
mod host_thread;
mod hub;
mod launcher;
mod nccl;
mod optimizer;
mod options;
mod peers;
mod rank;
mod report;
mod server;
mod staged;
#[cfg(test)]
mod tests;
mod training;
mod uncomputed;
mod wire;

use std::process::ExitCode;

use clap::Parser;

use crate::common::Result;
use crate::launcher::Place;
use crate::options::Options;

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(text) => {
            text.iter().for_each(|text| println!("{text}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("parallel: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns what to print, on rank 0.
fn run(options: &Options) -> Result<Option<String>> {
    let place = Place::find(&|name| std::env::var(name).ok())?;
    if options.dry_run {
        let ranks = options.gpus.map_or(place.map_or(1, |place| place.ranks), |ranks| ranks as usize);
        let estimate = dry_run::estimate(options, ranks)?;
        return Ok(Some(if options.json { serde_json::to_string(&estimate)? } else { estimate.to_string() }));
    }
    let report = match (options.gpus, place) {
        (Some(ranks), Some(place)) if place.ranks > 1 => {
            return Err(format!(
                "a launcher started this process as rank {} of {}, and --gpus {ranks} asks for threads: leave one of them out",
                place.rank, place.ranks
            )
            .into());
        }
        (None, Some(place)) => rank::process(options, &place)?,
        (ranks, _) => Some(rank::threads(options, ranks.unwrap_or(1) as usize)?),
    };
    let text =
        |report: report::Report| if options.json { serde_json::to_string(&report) } else { Ok(report.to_string()) };
    Ok(report.map(text).transpose()?)
}
