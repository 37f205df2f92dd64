//! Measures how much memory a decoder with a growing cache of keys and values needs. A whole answer is one entry of a scope. Each
//! token of the answer replaces the cache of each layer by one that is a row longer. Prompts differ in length and batch size. Nothing
//! is computed: the device has no memory.
//!
//! ```text
//! cargo run --release --example decode -- --answers 10 --json
//! ```

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Parser;
use gpucache::device::{Device, Virtual};
use gpucache::{Allocate, Array, Scope};
use serde_json::{Value, json};

/// Reports how much memory a decoder needs whose cache of keys and values grows.
#[derive(Debug, Parser)]
struct Options {
    /// Number of prompts, answered one after the other.
    #[arg(long, default_value = "10")]
    answers: NonZeroUsize,
    /// Number of tokens in each answer.
    #[arg(long, default_value = "512")]
    tokens: NonZeroUsize,
    /// Number of layers, each with a key and a value.
    #[arg(long, default_value = "24")]
    layers: NonZeroUsize,
    /// Number of elements (f32) in a row of a key or a value.
    #[arg(long, default_value = "1024")]
    width: NonZeroUsize,
    /// The longest prompt, in tokens.
    #[arg(long, default_value = "256")]
    prompt: NonZeroUsize,
    /// The largest batch size.
    #[arg(long, default_value = "4")]
    batch: NonZeroUsize,
    /// Seed of the random prompt lengths and batch sizes.
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Limit of the device's memory, as a multiple of the peak of live memory, such as 1.02. The run fails if an allocation finds no
    /// memory.
    #[arg(long)]
    limit: Option<f64>,
    /// Print one JSON object instead of a summary.
    #[arg(long)]
    json: bool,
}

/// The memory use of the whole run.
#[derive(Debug, Default)]
struct Report {
    answers: usize,
    /// Peaks of the whole run.
    peak_live_bytes: u64,
    peak_reserved_bytes: u64,
    reserved_over_live: f64,
    /// The most memory reserved in the second half of the answers, divided by the peak of live memory.
    steady_reserved_over_live: f64,
    /// The fraction of the arrays of the second half that a plan served.
    steady_planned_share: f64,
}

impl Report {
    /// One JSON object.
    fn to_json(&self) -> Value {
        json!({
            "answers": self.answers,
            "peak_live_bytes": self.peak_live_bytes,
            "peak_reserved_bytes": self.peak_reserved_bytes,
            "reserved_over_live": self.reserved_over_live,
            "steady_reserved_over_live": self.steady_reserved_over_live,
            "steady_planned_share": self.steady_planned_share,
        })
    }
}

type Bytes = Array<u8, Virtual>;

/// Bytes that are alive now, and their peak.
#[derive(Debug, Default)]
struct Live {
    now: u64,
    most: u64,
}

impl Live {
    fn born(&mut self, device: &Virtual, bytes: usize) -> gpucache::Result<Bytes> {
        let array = device.zeros::<u8>(bytes)?;
        self.now += array.byte_len() as u64;
        self.most = self.most.max(self.now);
        Ok(array)
    }

    fn dies(&mut self, array: Bytes) {
        self.now -= array.byte_len() as u64;
    }
}

/// Allocates one token's arrays: each layer's projections, its cache with one more row, and the results of attention.
fn token(device: &Virtual, live: &mut Live, cache: &mut [[Bytes; 2]], row: usize, rows: usize) -> gpucache::Result<()> {
    let mut hidden = live.born(device, row)?;
    for halves in cache {
        for half in halves {
            let new = live.born(device, row)?;
            let longer = live.born(device, row * rows)?;
            live.dies(std::mem::replace(half, longer));
            live.dies(new);
        }
        let query = live.born(device, row)?;
        // One number per row and head; a head has 64 numbers.
        let scores = live.born(device, (row / 64) * rows)?;
        live.dies(query);
        let mixed = live.born(device, row)?;
        live.dies(scores);
        let wide = live.born(device, 4 * row)?;
        live.dies(mixed);
        let next = live.born(device, row)?;
        live.dies(wide);
        live.dies(std::mem::replace(&mut hidden, next));
    }
    live.dies(hidden);
    Ok(())
}

/// A whole answer to a prompt of `prompt` tokens. The cache is dropped at the end of the answer.
fn answer(device: &Virtual, options: &Options, live: &mut Live, prompt: usize, batch: usize) -> gpucache::Result<()> {
    let row = batch * options.width.get() * size_of::<f32>();
    let mut cache = Vec::new();
    for _ in 0..options.layers.get() {
        cache.push([live.born(device, row * prompt)?, live.born(device, row * prompt)?]);
    }
    for number in 1..=options.tokens.get() {
        token(device, live, &mut cache, row, prompt + number)?;
    }
    cache.into_iter().flatten().for_each(|half| live.dies(half));
    Ok(())
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// The memory use of the answers on a device with so many bytes.
fn measure(options: &Options, bytes: u64) -> gpucache::Result<Report> {
    let device = Virtual::new(bytes as usize);
    let scope = Scope::new("answer");
    let mut random = fastrand::Rng::with_seed(options.seed);
    let (mut report, mut served) = (Report { answers: options.answers.get(), ..Report::default() }, [0; 2]);
    let mut steady_reserved = 0;
    for number in 0..options.answers.get() {
        let prompt = random.usize(1..=options.prompt.get());
        let batch = random.usize(1..=options.batch.get());
        let before = scope.stats().unwrap_or_default();
        let mut live = Live::default();
        scope.run(|| answer(&device, options, &mut live, prompt, batch))?;
        let reserved = device.memory().bytes;
        report.peak_live_bytes = report.peak_live_bytes.max(live.most);
        if 2 * number >= options.answers.get() {
            let since = scope.stats().unwrap_or_default().since(&before);
            served[0] += since.served.planned.allocations;
            served[1] += since.allocations();
            steady_reserved = steady_reserved.max(reserved);
        }
    }
    report.peak_reserved_bytes = device.memory().peak_bytes;
    report.reserved_over_live = ratio(report.peak_reserved_bytes, report.peak_live_bytes);
    report.steady_reserved_over_live = ratio(steady_reserved, report.peak_live_bytes);
    report.steady_planned_share = ratio(served[0], served[1]);
    Ok(report)
}

fn main() -> ExitCode {
    let options = Options::parse();
    let unlimited = measure(&options, 1 << 40);
    let limited = |limit: f64| {
        gpucache::invalidate("answer");
        measure(&options, (unlimited.as_ref().map_or(0, |report| report.peak_live_bytes) as f64 * limit) as u64)
    };
    let report = match options.limit {
        Some(limit) => limited(limit),
        None => unlimited,
    };
    match report {
        Ok(report) if options.json => println!("{}", report.to_json()),
        Ok(report) => println!(
            "{} answers: reserved / live memory {:.4}, once warm {:.4}; share of planned arrays {:.4}",
            report.answers, report.reserved_over_live, report.steady_reserved_over_live, report.steady_planned_share
        ),
        Err(error) => {
            eprintln!("decode: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
