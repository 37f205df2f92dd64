//! Where the time of a step goes, for several limits in turn.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use gpucache::prelude::*;
use serde_json::json;

use crate::Options;
use crate::common::Result;
use crate::compute::Compute;
use crate::store::Placement;
use crate::training::{Training, unlimited_peak};

const WINDOW: u32 = 16;

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn explain<C: Compute>(compute: &C, options: &Options, path: &Path) -> Result<()> {
    let mut file = File::create(path)?;
    let peak = unlimited_peak(compute, options)?;
    println!("{}", json!({"device": compute.name(), "peak": peak}));
    let all = std::env::var("CONFIGS").unwrap_or_else(|_| "device,auto,auto-cleared,0.8,0.6,0.4,device,auto,0.6,0.4".into());
    for (number, config) in all.split(',').enumerate() {
        run(compute, options, (number, config), peak, &mut file)?;
        if compute.name() == "clock" {
            compute.measure();
        }
    }
    Ok(())
}

fn run<C: Compute>(
    compute: &C,
    options: &Options,
    (number, config): (usize, &str),
    peak: u64,
    file: &mut File,
) -> Result<()> {
    let device = compute.device();
    gpucache::limit(device, u64::MAX);
    gpucache::invalidate("train_step");
    gpucache::trim(device)?;
    let mut options = options.clone();
    options.placement = if config == "device" { Placement::Device } else { Placement::Auto };
    if let Ok(share) = config.trim_end_matches("-cleared").parse::<f64>() {
        gpucache::limit(device, (share * peak as f64) as u64);
    }
    gpucache::explain::restart();
    // Looked at in every second run alone, as that costs time itself.
    let is_watched = std::env::var("WATCH").map_or(true, |watch| watch != "0");
    gpucache::explain::turn_on(is_watched);
    let mut training = Training::new(compute, &options)?;
    training.store.clears = config.ends_with("cleared");
    let mut bits = 0u64;
    let windows = options.steps.div_ceil(WINDOW);
    for window in 0..windows {
        let before = State::of(&training, compute);
        let (mut steps, mut issued) = (Vec::new(), Vec::new());
        let mut sum = 0.0;
        for _ in 0..WINDOW {
            let begun = compute.seconds();
            let loss = training.step()?;
            steps.push((compute.seconds() - begun) * 1e3);
            issued.push(training.issued * 1e3);
            bits = bits.rotate_left(5) ^ u64::from(loss.to_bits());
            sum += steps.last().unwrap_or(&0.0);
        }
        let after = State::of(&training, compute);
        if window < 4 || window + 3 >= windows {
            let line = before.until(&after, f64::from(WINDOW));
            let least = steps.iter().copied().fold(f64::INFINITY, f64::min);
            println!("{}", json!({
                "run": number, "config": config, "window": window, "loss_bits": format!("{bits:016x}"),
                "step_ms": rounded(sum / f64::from(WINDOW)), "median_ms": rounded(median(&mut steps)), "least_ms": rounded(least),
                "issue_ms": rounded(median(&mut issued)), "per_step": line,
            }));
        }
    }
    println!("{}", json!({"run": number, "config": config, "stats": format!("{}", gpucache::placed_stats(device)), "memory": format!("{}", device.memory())}));
    writeln!(file, "# {number} {config}")?;
    for line in gpucache::explain::take_log() {
        writeln!(file, "{line}")?;
    }
    gpucache::explain::turn_on(false);
    drop(training);
    gpucache::limit(device, u64::MAX);
    Ok(())
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

struct State {
    placed: gpucache::PlacedStats,
    order: gpucache::device::OrderUse,
    memory: gpucache::device::MemoryUse,
    kinds: [(u64, u64); 20],
}

impl State {
    fn of<C: Compute>(_training: &Training<'_, C>, compute: &C) -> State {
        let device = compute.device();
        State {
            placed: gpucache::placed_stats(device),
            order: device.ordering(),
            memory: device.memory(),
            kinds: gpucache::explain::counts(),
        }
    }

    fn until(&self, after: &State, steps: f64) -> serde_json::Value {
        let per = |before: u64, after: u64| rounded((after - before) as f64 / steps);
        let (a, b) = (&self.placed, &after.placed);
        let mut kinds = serde_json::Map::new();
        for (kind, name) in gpucache::explain::NAMES.iter().enumerate() {
            let (count, nanos) = (after.kinds[kind].0 - self.kinds[kind].0, after.kinds[kind].1 - self.kinds[kind].1);
            if count > 0 {
                kinds.insert((*name).to_owned(), json!([rounded(count as f64 / steps), rounded(nanos as f64 / 1e3 / steps)]));
            }
        }
        json!({
            "mb_in": per(a.bytes_in, b.bytes_in) / 1e6, "mb_out": per(a.bytes_out, b.bytes_out) / 1e6,
            "shifted_mb": per(a.shifted_bytes, b.shifted_bytes) / 1e6,
            "evictions": per(a.evictions, b.evictions), "demanded": per(a.demanded, b.demanded),
            "prefetched": per(a.prefetched, b.prefetched), "mispredictions": b.mispredictions - a.mispredictions,
            "waited_ms": rounded((b.waited - a.waited).as_secs_f64() * 1e3 / steps),
            "copying_ms": rounded((b.copying - a.copying).as_secs_f64() * 1e3 / steps),
            "layout_ms": rounded((b.layout_time - a.layout_time).as_secs_f64() * 1e3 / steps),
            "events": per(self.order.events, after.order.events), "queries": per(self.order.queries, after.order.queries),
            "waits": per(self.order.waits, after.order.waits),
            "mapped": per(self.memory.mapped_pieces, after.memory.mapped_pieces),
            "unmapped": per(self.memory.unmapped_pieces, after.memory.unmapped_pieces),
            "host_us": kinds,
        })
    }
}
