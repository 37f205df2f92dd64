//! The same training without the cache: how much memory and time it needs, measured in a process of its own.

use std::fmt;
use std::process::{Command, Stdio};

use clap::ValueEnum as _;
use serde_json::Value;

use crate::Options;
use crate::buffers::Alloc;
use crate::common::Result;
use crate::report::{Report, mebibytes};

/// Epochs of the comparison: enough to measure a speed, and a small part of a whole run.
const EPOCHS: u16 = 10;
/// A difference in speed below this share is noise.
const NOISE: f64 = 0.05;

/// A training in a process of its own: the part of its report that is compared.
#[derive(Clone, Debug)]
pub(crate) struct Trained {
    steps: u64,
    pub(crate) steps_per_second: f64,
    best_steps_per_second: f64,
    device_takes: u64,
    peak_device_bytes: u64,
    pub(crate) loss_bits: String,
}

impl Trained {
    /// `None` if a figure is missing.
    fn from_json(json: &Value) -> Option<Self> {
        Some(Self {
            steps: json["steps"].as_u64()?,
            steps_per_second: json["steps_per_second"].as_f64()?,
            best_steps_per_second: json["best_steps_per_second"].as_f64()?,
            device_takes: json["device_takes"].as_u64()?,
            peak_device_bytes: json["peak_device_bytes"].as_u64()?,
            loss_bits: json["loss_bits"].as_str()?.to_owned(),
        })
    }
}

/// Trains on the device of `report`, in a process of its own, which has its own peak and writes no trace.
///
/// # Errors
/// If that process fails.
pub(crate) fn train_apart(report: &Report, options: &Options, alloc: Alloc, epochs: u16) -> Result<Trained> {
    let alloc = alloc.to_possible_value().ok_or("every way to allocate has a name")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--alloc", alloc.get_name(), "--json", "--device", report.device()]);
    command.args(["--epochs", &epochs.to_string()]);
    command.args(options.functional.then_some("--functional"));
    command.env_remove("GPUCACHE_TRACE").env_remove("GPUCACHE_WATCH").stderr(Stdio::inherit());
    let output = command.output()?;
    let trained = serde_json::from_slice(&output.stdout).ok().and_then(|json| Trained::from_json(&json));
    Ok(trained.ok_or_else(|| {
        format!("the training with `--alloc {}`, for comparison, failed: {}", alloc.get_name(), output.status)
    })?)
}

/// The figures of a run next to those of the same training without the cache.
pub(crate) struct Comparison<'a> {
    report: &'a Report,
    uncached: Trained,
}

impl<'a> Comparison<'a> {
    /// Trains for some epochs with `--alloc plain` on the same device.
    ///
    /// # Errors
    /// If that process fails.
    pub(crate) fn measure(report: &'a Report, options: &Options) -> Result<Option<Self>> {
        if options.alloc != Alloc::Scoped {
            return Ok(None);
        }
        let uncached = train_apart(report, options, Alloc::Plain, EPOCHS.min(options.epochs))?;
        Ok(Some(Self { report, uncached }))
    }
}

impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { report, uncached } = self;
        let per_step = |takes: u64, steps: u64| takes as f64 / steps.max(1) as f64;
        let (speed, plain_speed) = (report.best_steps_per_second(), uncached.best_steps_per_second);
        let (peak, plain_peak) = (report.peak_device_bytes(), uncached.peak_device_bytes);
        let takes = per_step(uncached.device_takes, uncached.steps);
        writeln!(f, "                       with the cache   without")?;
        writeln!(f, "steps/s, fastest epoch {speed:14.0} {plain_speed:9.0}")?;
        writeln!(f, "device calls per step  {:14.2} {takes:9.2}", per_step(report.device_takes(), report.steps()))?;
        write!(f, "peak memory, MiB       {:14.2} {:9.2}", mebibytes(peak), mebibytes(plain_peak))?;
        if speed < plain_speed * (1.0 + NOISE) {
            let step = 1e6 / plain_speed;
            write!(
                f,
                "\nNo gain in speed: a step takes {step:.0} µs here, and its {takes:.0} allocations are a small part of that."
            )?;
        }
        if peak > plain_peak {
            write!(
                f,
                "\nNo gain in memory: the cache reserves whole pages (2 MiB on a GPU, 64 KiB on a host), and this network is small."
            )?;
        }
        Ok(())
    }
}
