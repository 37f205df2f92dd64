//! The report at the end of a run: for people, or as one JSON object.

use std::fmt;

use crate::Options;
use crate::gpt::compute::Compute;
use crate::gpt::store::{Placement, Traffic};
use crate::training::Outcome;

#[derive(Debug, serde::Serialize)]
pub(crate) struct Report {
    device: String,
    placement: Placement,
    layers: usize,
    width: usize,
    heads: usize,
    context: usize,
    batch: usize,
    seed: u64,
    /// The number of trained numbers.
    parameters: usize,
    /// Mean cross-entropy of each step, in nats per letter.
    losses: Vec<f32>,
    /// The speed of the second half of the steps. In the first half the program reserves memory, learns the order of uses, and pins host
    /// memory.
    steps_per_second: f64,
    /// The time of each step.
    step_seconds: Vec<f64>,
    /// The most device memory reserved at once, under the limit if there is one. If the limit is a fraction, this is the most
    /// at the end of a step.
    peak_device_bytes: u64,
    /// The most memory reserved in three steps without a limit, if the limit is a fraction of it.
    unlimited_peak_bytes: Option<u64>,
    limit_bytes: Option<u64>,
    #[serde(flatten)]
    traffic: Traffic,
    /// The text that the trained network writes.
    text: String,
}

impl Report {
    pub(crate) fn new<C: Compute>(compute: &C, options: &Options, outcome: Outcome) -> Self {
        let sizes = outcome.sizes;
        Self {
            device: compute.name(),
            placement: options.placement,
            layers: sizes.layers,
            width: sizes.width,
            heads: sizes.heads,
            context: sizes.context,
            batch: sizes.batch,
            seed: options.seed,
            parameters: sizes.parameters(),
            losses: outcome.losses,
            steps_per_second: speed(&outcome.step_seconds),
            step_seconds: outcome.step_seconds,
            peak_device_bytes: outcome.peak_device_bytes,
            unlimited_peak_bytes: outcome.unlimited_peak_bytes,
            limit_bytes: outcome.limit_bytes,
            traffic: outcome.traffic,
            text: outcome.text,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layers, width, heads, context, batch, .. } = self;
        writeln!(f, "device              {}", self.device)?;
        writeln!(
            f,
            "network             {layers} layers, width {width}, {heads} heads, {} parameters",
            self.parameters
        )?;
        writeln!(f, "step                {batch} sequences of {context} letters")?;
        if let (Some(first), Some(last)) = (self.losses.first(), self.losses.last()) {
            writeln!(f, "loss                {first:.4} in the first step, {last:.4} in step {}", self.losses.len())?;
        }
        writeln!(f, "speed               {:.2} steps/s", self.steps_per_second)?;
        writeln!(f, "peak device memory  {:.1} MiB", mebibytes(self.peak_device_bytes))?;
        if let Some(bytes) = self.unlimited_peak_bytes {
            writeln!(f, "without a limit     {:.1} MiB", mebibytes(bytes))?;
        }
        if let Some(bytes) = self.limit_bytes {
            writeln!(f, "limit               {:.1} MiB", mebibytes(bytes))?;
        }
        write!(f, "{}it writes:\n{}", self.traffic, self.text)
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Traffic { moved_bytes, waited_seconds, evictions, mispredictions, layout_seconds, .. } = self;
        write!(f, "moved               {:.1} MiB, {evictions} arrays to the host", mebibytes(*moved_bytes))?;
        write!(f, "\nwaited for copies   {waited_seconds:.2} s")?;
        self.hidden_share.map_or(Ok(()), |share| write!(f, ", {:.0} % of the copies hidden", 100.0 * share))?;
        writeln!(f, "\nscheduling          {layout_seconds:.3} s, {mispredictions} mispredictions")
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Steps per second in the second half of the steps.
fn speed(step_seconds: &[f64]) -> f64 {
    let timed = &step_seconds[step_seconds.len() / 2..];
    timed.len() as f64 / timed.iter().sum::<f64>()
}
