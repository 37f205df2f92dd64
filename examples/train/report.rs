//! What a run says at its end: for people, or as one JSON object.

use std::fmt;

use gpucache::prelude::*;

use crate::Options;
use crate::buffers::Alloc;
use crate::compute::Compute;
use crate::training::Outcome;

#[derive(Debug, serde::Serialize)]
pub(crate) struct Report {
    device: String,
    alloc: Alloc,
    functional: bool,
    epochs: u16,
    /// Share of the held-back images told right after the last epoch, from 0 to 1.
    test_accuracy: f64,
    /// Mean loss over the last epoch.
    train_loss: f32,
    /// Without evaluation and, if there are more, without the first epoch, in which the machine warms up.
    steps_per_second: f64,
    /// Allocations that the cache `train_step` served with memory it had, those that others had given back, and those for which
    /// memory was taken from the device.
    hits: u64,
    /// Those of the hits whose arrays outlived their step: what `--functional` replaces.
    carried: u64,
    recycled: u64,
    misses: u64,
    /// How often the training steps took memory from the device, by allocations and mapped pieces: in all, and after the first
    /// epoch.
    device_takes: u64,
    steady_device_takes: u64,
    /// The most memory of the device that was held at once, data and parameters included.
    peak_device_bytes: u64,
    /// What the caches gave back after the last evaluation, and at the end.
    evaluation_bytes_given_back: u64,
    bytes_given_back: u64,
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
            test_accuracy: outcome.accuracy,
            train_loss: outcome.loss,
            steps_per_second: timed.steps as f64 / timed.time.as_secs_f64(),
            hits: cache.hits,
            carried: outcome.carried,
            recycled: cache.recycled,
            misses: cache.misses,
            device_takes: first.takes + steady.takes,
            steady_device_takes: steady.takes,
            peak_device_bytes: compute.device().memory().peak_bytes,
            evaluation_bytes_given_back: outcome.given_back[0],
            bytes_given_back: outcome.given_back[1],
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrays = match self.alloc {
            Alloc::Scoped => "made in every step, served by its scope's cache",
            Alloc::Plain => "made in every step, served by the device",
            Alloc::Hand => "made once by hand, used again in every step",
        };
        writeln!(f, "device              {}", self.device)?;
        writeln!(f, "arrays              {arrays}")?;
        writeln!(f, "held-back images    {:.2} % right after {} epochs", 100.0 * self.test_accuracy, self.epochs)?;
        writeln!(f, "training loss       {:.4}", self.train_loss)?;
        writeln!(f, "speed               {:.0} steps/s", self.steps_per_second)?;
        let (hits, recycled, misses) = (self.hits, self.recycled, self.misses);
        writeln!(f, "cache train_step    {hits} hits, {recycled} recycled, {misses} misses")?;
        let (all, steady) = (self.device_takes, self.steady_device_takes);
        writeln!(f, "device memory       taken {all} times in training steps, {steady} of them after the first epoch")?;
        writeln!(f, "peak device memory  {:.2} MiB", mebibytes(self.peak_device_bytes))?;
        let (evaluation, end) = (self.evaluation_bytes_given_back, self.bytes_given_back);
        write!(f, "given back          {:.2} MiB by each evaluation, ", mebibytes(evaluation))?;
        write!(f, "{:.2} MiB by the caches at the end", mebibytes(end))
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
