//! The report at the end of a run: a summary, or one JSON object.

use std::fmt;

use clap::ValueEnum as _;
use clap::builder::PossibleValue;
use gpucache::graph::GraphStats;
use gpucache::prelude::*;
use serde_json::{Value, json};

use crate::Options;
use crate::buffers::Alloc;
use crate::compute::Compute;
use crate::training::Outcome;

#[derive(Debug)]
pub(crate) struct Report {
    device: String,
    alloc: Alloc,
    functional: bool,
    epochs: u16,
    steps: u64,
    /// Share of the test images that are classified correctly after the last epoch, from 0 to 1.
    test_accuracy: f64,
    /// Mean loss over the last epoch.
    train_loss: f32,
    /// Without evaluation. If there are several epochs, the first one is not counted, because the machine warms up in it.
    steps_per_second: f64,
    /// Of the fastest epoch, which other programs of the machine disturbed least.
    best_steps_per_second: f64,
    /// Allocations that the cache `train_step` served: with its own memory (hits), with memory that other scopes had returned
    /// (recycled), and with new memory of the device (misses).
    hits: u64,
    /// Hits whose arrays outlived their step: the arrays that `--functional` replaces.
    carried: u64,
    recycled: u64,
    misses: u64,
    /// How often the training steps took memory from the device, by allocations and mapped pieces: in all, and after the first
    /// epoch.
    device_takes: u64,
    steady_device_takes: u64,
    /// The most memory of the device that was reserved at once, data and parameters included.
    peak_device_bytes: u64,
    /// The memory that the caches returned after the last evaluation, and at the end.
    evaluation_bytes_given_back: u64,
    bytes_given_back: u64,
    /// A hash of the losses of all steps: equal if every bit is equal.
    loss_bits: String,
    /// The graphs of the training steps, with `--graph`.
    graph: Option<GraphStats>,
}

impl Report {
    pub(crate) fn new<C: Compute>(compute: &C, options: &Options, outcome: &Outcome) -> Self {
        let Outcome { first, steady, cache, .. } = outcome;
        let timed = if steady.steps > 0 { steady } else { first };
        let cache = cache.clone().unwrap_or_default();
        Self {
            device: compute.name(),
            alloc: options.alloc,
            functional: options.functional,
            epochs: options.epochs,
            steps: first.steps + steady.steps,
            test_accuracy: outcome.accuracy,
            train_loss: outcome.loss,
            steps_per_second: timed.steps as f64 / timed.time.as_secs_f64(),
            best_steps_per_second: timed.best_speed,
            hits: cache.hits,
            carried: outcome.carried,
            recycled: cache.recycled,
            misses: cache.misses,
            device_takes: first.takes + steady.takes,
            steady_device_takes: steady.takes,
            peak_device_bytes: compute.device().memory().peak_bytes,
            evaluation_bytes_given_back: outcome.given_back[0],
            bytes_given_back: outcome.given_back[1],
            loss_bits: format!("{:016x}", outcome.loss_bits),
            graph: outcome.graphs.clone(),
        }
    }

    /// One JSON object. Only `--graph` adds `graph`.
    pub(crate) fn to_json(&self) -> Value {
        let alloc = self.alloc.to_possible_value();
        let mut json = json!({
            "device": self.device,
            "alloc": alloc.as_ref().map(PossibleValue::get_name),
            "functional": self.functional,
            "epochs": self.epochs,
            "steps": self.steps,
            "test_accuracy": self.test_accuracy,
            "train_loss": self.train_loss,
            "steps_per_second": self.steps_per_second,
            "best_steps_per_second": self.best_steps_per_second,
            "hits": self.hits,
            "carried": self.carried,
            "recycled": self.recycled,
            "misses": self.misses,
            "device_takes": self.device_takes,
            "steady_device_takes": self.steady_device_takes,
            "peak_device_bytes": self.peak_device_bytes,
            "evaluation_bytes_given_back": self.evaluation_bytes_given_back,
            "bytes_given_back": self.bytes_given_back,
            "loss_bits": self.loss_bits,
        });
        if let Some(graph) = &self.graph {
            json["graph"] = graph_json(graph);
        }
        json
    }

    /// The device as `--device` takes it.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    pub(crate) fn loss_bits(&self) -> &str {
        &self.loss_bits
    }

    pub(crate) fn steps_per_second(&self) -> f64 {
        self.steps_per_second
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    pub(crate) fn best_steps_per_second(&self) -> f64 {
        self.best_steps_per_second
    }

    pub(crate) fn device_takes(&self) -> u64 {
        self.device_takes
    }

    pub(crate) fn peak_device_bytes(&self) -> u64 {
        self.peak_device_bytes
    }
}

/// The graphs of the training steps. `direct` counts the steps without a graph.
fn graph_json(graph: &GraphStats) -> Value {
    json!({
        "launches": graph.launches,
        "captures": graph.captures,
        "direct": graph.direct,
        "executable_bytes": graph.executable_bytes,
        "refused": graph.refused,
        "last_refusal": graph.last_refusal,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrays = match self.alloc {
            Alloc::Scoped => "allocated in each step, from the cache of the scope `train_step`",
            Alloc::Plain => "allocated in each step, from the device",
            Alloc::Hand => "preallocated, and reused in each step",
        };
        writeln!(f, "device              {}", self.device)?;
        writeln!(f, "arrays              {arrays}")?;
        writeln!(f, "test images         {:.2} % correct after {} epochs", 100.0 * self.test_accuracy, self.epochs)?;
        writeln!(f, "training loss       {:.4}", self.train_loss)?;
        // The same figure as in the comparison without the cache. `--json` has the mean of all epochs too.
        writeln!(f, "speed               {:.0} steps/s in the fastest epoch", self.best_steps_per_second)?;
        let (hits, recycled, misses) = (self.hits, self.recycled, self.misses);
        writeln!(f, "cache train_step    {hits} hits, {recycled} recycled, {misses} misses")?;
        let (all, steady) = (self.device_takes, self.steady_device_takes);
        writeln!(
            f,
            "device memory       requested {all} times in training steps, {steady} of them after the first epoch"
        )?;
        writeln!(f, "peak device memory  {:.2} MiB", mebibytes(self.peak_device_bytes))?;
        let (evaluation, end) = (self.evaluation_bytes_given_back, self.bytes_given_back);
        write!(f, "returned memory     {:.2} MiB after each evaluation, ", mebibytes(evaluation))?;
        write!(f, "{:.2} MiB at the end", mebibytes(end))?;
        self.graph.iter().try_for_each(|graph| write!(f, "\ngraphs              {}", graph))
    }
}

pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
