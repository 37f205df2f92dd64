//! The figures of one rank, which rank 0 gathers.

use gpucache::prelude::*;

use crate::common::Result;
use crate::gpt::compute::Compute;
use crate::training::{Run, Training};

/// The figures of one rank.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Figures {
    pub(crate) rank: usize,
    pub(crate) device: String,
    /// The sum of the losses of this rank's part of each step.
    pub(crate) loss_sums: Vec<f64>,
    pub(crate) step_seconds: Vec<f64>,
    /// The most device memory reserved at once. Ranks that share a device's memory count equal shares of it.
    pub(crate) reserved_bytes: u64,
    /// The most bytes of arrays that were alive at once on the device: those of the step, those that outlive it, and placed ones.
    pub(crate) live_bytes: u64,
    /// The optimizer's state.
    pub(crate) optimizer_bytes: u64,
    /// How often the device gave memory in the second half of the steps.
    pub(crate) device_calls: u64,
    /// Events that ordered streams in the second half of the steps, for each call that reduced or gathered a bucket.
    pub(crate) events_per_call: f64,
    /// Seconds of the measured calls that reduce and gather.
    pub(crate) communication_seconds: f64,
    /// The part of this time, from 0 to 1, in which computation did not wait for it. `None` without communication.
    pub(crate) hidden_share: Option<f64>,
    /// Differs between ranks if a bit of a parameter differs. Empty unless parameters are compared.
    pub(crate) checksum: String,
}

impl Figures {
    /// `sharing` is the number of ranks that share the memory of the device.
    pub(crate) fn of<C: Compute>(
        (rank, sharing, is_checked): (usize, usize, bool),
        compute: &C,
        training: &Training<'_, C>,
        run: Run,
    ) -> Result<Self> {
        let (time, stats, sharing) = (run.communication, compute.device().stats(), sharing as u64);
        let counted = run.step_seconds.len() - run.step_seconds.len() / 2;
        let uses = counted * training.calls() * sharing as usize;
        let checksum = if is_checked { format!("{:016x}", training.checksum()?) } else { String::new() };
        let reserved_bytes = stats.memory.peak_bytes / sharing;
        // Biases and norms are placed and direct at once, and count twice: less than a thousandth.
        let live_bytes = (stats.direct_bytes + training.placed_bytes) / sharing + of_this_thread().unwrap_or(0);
        Ok(Self {
            rank,
            device: compute.name(),
            loss_sums: run.losses,
            step_seconds: run.step_seconds,
            reserved_bytes,
            // A sum of peaks: other ranks of this memory may be at their own peak while this one reads placed bytes.
            live_bytes: live_bytes.min(reserved_bytes),
            optimizer_bytes: training.optimizer.bytes(),
            device_calls: run.device_calls,
            events_per_call: run.events as f64 / uses as f64,
            communication_seconds: time.busy,
            hidden_share: (time.busy > 0.0).then(|| 1.0 - (time.waited / time.busy).min(1.0)),
            checksum,
        })
    }
}

/// The most bytes that the step's scope had in use on this thread.
fn of_this_thread() -> Option<u64> {
    let (stats, thread) = (gpucache::stats("train_step")?, std::thread::current());
    let is_own = |name: &Option<String>| name.as_deref() == thread.name();
    stats.threads.iter().find(|other| is_own(&other.thread)).map(|own| own.stats.high_water_bytes)
}
