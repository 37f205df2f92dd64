//! The report of a trace: a row of a table for people, or one JSON object.

use std::fmt;

use gpucache_report::replay::{Figures, History, Policy};

#[derive(Debug, serde::Serialize)]
pub(crate) struct Report {
    trace: String,
    device: String,
    policy: &'static str,
    passes: usize,
    /// Lines of the trace: allocations and frees.
    operations: usize,
    /// The largest sum of live bytes, each rounded up to 256.
    peak_live_bytes: u64,
    /// The most bytes reserved from the device.
    peak_reserved_bytes: u64,
    reserved_over_live: f64,
    /// Allocations that found no memory, over all passes.
    pub(crate) out_of_memory: u64,
    /// The most bytes reserved in the last three steps of the last pass, divided by the trace's peak of live bytes.
    steady_reserved_over_live: f64,
    /// Nanoseconds per operation in the last three steps of a pass: the median over all passes except the first, if there are several.
    steady_ns_per_operation: f64,
    /// Calls of the device for allocations, mappings and frees in the last three steps of the last pass.
    steady_device_calls: u64,
    /// Fractions of the allocations in the last three steps of the last timed pass, by their source: a plan, the scope's
    /// lists, or the device's range (or the device itself). 0 if the scope counted none.
    steady_planned_share: f64,
    steady_listed_share: f64,
    steady_ranged_share: f64,
    /// How often steps of the timed passes deviated from their plan.
    deviations: u64,
    /// Milliseconds that the timed passes spent on planning.
    plan_ms: f64,
}

impl Report {
    pub(crate) fn new(device: String, history: &History, policy: Policy, passes: usize, figures: &Figures) -> Self {
        let over_live = |bytes: u64| bytes as f64 / figures.peak_live_bytes as f64;
        Self {
            trace: history.name().to_owned(),
            device,
            policy: policy.name(),
            passes,
            operations: history.operations(),
            peak_live_bytes: figures.peak_live_bytes,
            peak_reserved_bytes: figures.peak_reserved_bytes,
            reserved_over_live: over_live(figures.peak_reserved_bytes),
            out_of_memory: figures.out_of_memory,
            steady_reserved_over_live: over_live(figures.steady_reserved_bytes),
            steady_ns_per_operation: figures.steady_ns_per_operation,
            steady_device_calls: figures.steady_device_calls,
            steady_planned_share: figures.steady.planned,
            steady_listed_share: figures.steady.listed,
            steady_ranged_share: figures.steady.ranged,
            deviations: figures.deviations,
            plan_ms: figures.planning.as_secs_f64() * 1e3,
        }
    }

    /// The head of the table.
    pub(crate) const HEAD: &str = concat!(
        "                                            MiB at peak                   |",
        "  steady state: the last three steps                              | all passes\n",
        "trace         device  policy  operations     live reserved of live failed |",
        " of live  ns/operation  device calls  planned/listed/ranged | deviations  plan ms",
    );
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = self.policy;
        let [live, reserved] = [self.peak_live_bytes, self.peak_reserved_bytes].map(mebibytes);
        write!(f, "{:13} {:7} {policy:7} {:10} {live:8.0} {reserved:8.0}", self.trace, self.device, self.operations)?;
        write!(f, " {:7.3} {:6} |", self.reserved_over_live, self.out_of_memory)?;
        write!(f, " {:7.3} {:13.1}", self.steady_reserved_over_live, self.steady_ns_per_operation)?;
        write!(f, " {:13}", self.steady_device_calls)?;
        let [planned, listed, ranged] =
            [self.steady_planned_share, self.steady_listed_share, self.steady_ranged_share].map(|share| 100.0 * share);
        write!(f, "  {planned:7.1}/{listed:5.1}/{ranged:5.1} % | {:10} {:8.1}", self.deviations, self.plan_ms)
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
