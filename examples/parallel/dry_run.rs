//! How much memory each rank will need on a GPU, or on the host: the same training on a device without memory, where one rank stands for all.

use std::fmt;

use gpucache::prelude::*;

use crate::checks;
use crate::collectives::Alone;
use crate::common::{DeviceChoice, Result};
use crate::gpt::compute::Compute;
use crate::gpt::store::Placement;
use crate::options::{Defaults, Options};
use crate::report::counted;
use crate::training::Training;
use crate::uncomputed::Uncomputed;

/// After so many steps, plans serve the step, and nothing more is reserved.
const STEPS: u32 = 12;

/// The memory of each rank.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Estimate {
    ranks: usize,
    /// Where the ranks would train: "the host", or "a GPU" for each rank.
    device: &'static str,
    is_sharded: bool,
    placement: Placement,
    parameters: usize,
    buckets: usize,
    /// The most memory that a rank reserves on its device at once. NCCL and the driver take more for themselves.
    reserved_bytes: u64,
    /// The part of it that is the optimizer's state, unless that rests on the host.
    optimizer_bytes: u64,
    /// Arrays that rest on the host.
    host_bytes: u64,
}

/// Runs some steps of rank 0 of `ranks`.
pub(crate) fn estimate(options: &Options, ranks: usize) -> Result<Estimate> {
    let is_on_host = options.device == DeviceChoice::Host;
    checks::check(options, ranks, is_on_host)?;
    let (device, compute, defaults) = if is_on_host {
        ("the host", Uncomputed::as_host(), Defaults::HOST)
    } else {
        ("a GPU", Uncomputed::new()?, Defaults::GPU)
    };
    let mut training = Training::new(&compute, &Alone, options, defaults, (0, ranks))?;
    for _ in 0..options.steps.min(STEPS) {
        training.step()?;
    }
    let stats = compute.device().stats();
    Ok(Estimate {
        ranks,
        device,
        is_sharded: options.shard,
        placement: options.placement,
        parameters: training.sizes.parameters(),
        buckets: training.buckets.all.len(),
        reserved_bytes: stats.memory.peak_bytes,
        optimizer_bytes: training.optimizer.bytes(),
        host_bytes: stats.offload.host_bytes,
    })
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let Self { ranks, device, parameters, buckets, .. } = self;
        let (ranks, buckets) = (counted(*ranks, "rank"), counted(*buckets, "bucket"));
        let state = if self.is_sharded { "sharded" } else { "whole on each rank" };
        writeln!(f, "network             {parameters} parameters in {buckets}, on {ranks}")?;
        writeln!(f, "estimate for        {device}")?;
        writeln!(f, "each rank reserves  {:.1} MiB", mebibytes(self.reserved_bytes))?;
        write!(f, "optimizer's state   {:.1} MiB, {state}", mebibytes(self.optimizer_bytes))?;
        match self.host_bytes {
            0 => Ok(()),
            bytes => write!(f, "\non the host         {:.1} MiB for each rank", mebibytes(bytes)),
        }
    }
}
