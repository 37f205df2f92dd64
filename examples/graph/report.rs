//! The report: a summary, or one JSON object.

use std::fmt;

use clap::ValueEnum as _;
use clap::builder::PossibleValue;
use gpucache::graph::GraphStats;
use serde_json::{Value, json};

use crate::Order;
use crate::model::Sizes;

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) device: String,
    pub(crate) sizes: Sizes,
    pub(crate) order: Order,
    /// The model's arrays.
    pub(crate) base_bytes: u64,
    /// The peak of reserved memory beside these, with the largest batch size alone, and with all of them.
    pub(crate) largest_bytes: u64,
    pub(crate) bytes: u64,
    /// How much less memory of the device is free after the steps than before the first one.
    pub(crate) device_bytes: Option<u64>,
    /// Until each graph ran once.
    pub(crate) start_seconds: f64,
    pub(crate) start_runs: usize,
    pub(crate) steps: usize,
    /// The counters at the end of the start, and after the steps.
    pub(crate) warm: GraphStats,
    pub(crate) stats: GraphStats,
    pub(crate) smallest_step: StepTimes,
    pub(crate) largest_step: StepTimes,
}

/// Median times of a step and one wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepTimes {
    pub(crate) batch: usize,
    /// In an ordinary scope.
    pub(crate) direct_us: f64,
    pub(crate) graph_us: f64,
}

impl Report {
    /// Reserved memory ÷ that of the largest batch size alone; 1.0 is ideal.
    fn over_largest(&self) -> f64 {
        self.bytes as f64 / self.largest_bytes as f64
    }

    /// One JSON object.
    pub(crate) fn to_json(&self) -> Value {
        let Self { sizes, stats, warm, .. } = self;
        let with_model = |bytes: u64| (bytes + self.base_bytes) as f64;
        let order = self.order.to_possible_value();
        json!({
            "device": self.device,
            "batches": sizes.batches,
            "rows": sizes.rows,
            "width": sizes.width,
            "blocks": sizes.blocks,
            "order": order.as_ref().map(PossibleValue::get_name),
            "base_bytes": self.base_bytes,
            "largest_bytes": self.largest_bytes,
            "bytes": self.bytes,
            "over_largest": self.over_largest(),
            "over_largest_with_model": with_model(self.bytes) / with_model(self.largest_bytes),
            "executable_bytes": stats.executable_bytes,
            "device_bytes": self.device_bytes,
            "start_seconds": self.start_seconds,
            "start_runs": self.start_runs,
            "start_captures": warm.captures,
            "steps": self.steps,
            "launches": stats.launches - warm.launches,
            "captures": stats.captures - warm.captures,
            "direct": stats.direct - warm.direct,
            "moved": stats.moved - warm.moved,
            "refused": stats.refused,
            "last_refusal": stats.last_refusal,
            "smallest_step": self.smallest_step.to_json(),
            "largest_step": self.largest_step.to_json(),
        })
    }
}

impl StepTimes {
    fn to_json(self) -> Value {
        json!({ "batch": self.batch, "direct_us": self.direct_us, "graph_us": self.graph_us })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, sizes, stats, warm, steps, .. } = self;
        let Sizes { batches, rows, width, blocks } = sizes;
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(
            f,
            "batches of 1 to {batches} sequences of {rows} rows, {blocks} blocks of width {width}, on {device}"
        )?;
        let (ratio, all, largest) = (self.over_largest(), mebibytes(self.bytes), mebibytes(self.largest_bytes));
        writeln!(f, "memory    {all:.2} MiB, {ratio:.3} x that of the largest batch size alone ({largest:.2} MiB)")?;
        writeln!(
            f,
            "graphs    {} graphs, which take {} bytes beside their arrays",
            stats.graphs, stats.executable_bytes
        )?;
        let (seconds, runs) = (self.start_seconds, self.start_runs);
        let graphs = warm.graphs;
        writeln!(
            f,
            "start     {graphs} of {batches} batch sizes had a graph, launched once, after {runs} runs and {seconds:.3} s"
        )?;
        let (launches, captures) = (stats.launches - warm.launches, stats.captures - warm.captures);
        let direct = stats.direct - warm.direct;
        writeln!(
            f,
            "then      {steps} steps of random batch sizes: {launches} launches, {captures} captures, {direct} direct runs"
        )?;
        for StepTimes { batch, direct_us, graph_us } in [self.smallest_step, self.largest_step] {
            writeln!(f, "one step  of {batch} sequences: {graph_us:.1} us by its graph, {direct_us:.1} us without")?;
        }
        stats.last_refusal.iter().try_for_each(|why| writeln!(f, "refused   {why}"))?;
        write!(f, "The results of each graph equal those of its step, bit by bit.")
    }
}
