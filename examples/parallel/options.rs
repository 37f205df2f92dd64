//! The options of the command line.

use std::str::FromStr;

use clap::{Parser, ValueEnum};

use crate::common::{DeviceChoice, Result};
use crate::gpt::sizes::{self, SizeOptions, Sizes};
use crate::gpt::store::Placement;

/// Trains a small GPT on several GPUs, or on several ranks of the host. Each rank has the whole network, and a part of each batch.
///
/// With the same options, the losses differ between numbers of ranks only by the order of sums, and the parameters of all ranks are equal to
/// the bit.
#[derive(Clone, Debug, Parser)]
#[command(args_override_self = true)]
pub(crate) struct Options {
    /// Number of ranks: threads of this process, each with its own GPU. Leave it out under torchrun, mpirun or srun, where each process is
    /// a rank. [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) gpus: Option<u32>,
    /// Where to train: auto (GPUs, or the host if there is none), host, or cuda:N, the GPU of the first rank.
    #[arg(long, default_value = "auto")]
    pub(crate) device: DeviceChoice,
    /// How ranks reduce gradients: auto (nccl for several GPUs), nccl, or host (through host memory, also with GPUs).
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) reduce: Reduce,
    /// Most bytes of gradients that are reduced at once. [default: 64KiB on the host, 25MiB on GPUs]
    #[arg(long)]
    pub(crate) bucket: Option<Size>,
    /// Each rank keeps only its part of the optimizer's state, and updates only that part of the parameters.
    #[arg(long)]
    pub(crate) shard: bool,
    /// Where the optimizer's state, the parameters and saved values are while no operation uses them.
    #[arg(long, value_enum, default_value = "device")]
    pub(crate) placement: Placement,
    /// Allocate all arrays of a step once, without a scope, for a comparison.
    #[arg(long)]
    pub(crate) preallocated: bool,
    /// Number of training steps.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) steps: u32,
    #[command(flatten)]
    sizes: SizeOptions,
    /// Seed of the random parameters and batches.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Compare the parameters of all ranks at the end. It is an error if they differ in a bit.
    #[arg(long)]
    pub(crate) check: bool,
    /// Compute nothing. Report the memory of each rank for this number of ranks: on GPUs, or on the host with --device host.
    #[arg(long, conflicts_with_all = ["check", "fail", "kill"])]
    pub(crate) dry_run: bool,
    /// Seconds that ranks wait for each other at the start.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) timeout: u64,
    /// Print one JSON object instead of a progress bar and tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// For tests: this rank, counted from 0, returns an error before this step, counted from 1.
    #[arg(long, value_name = "RANK:STEP")]
    pub(crate) fail: Option<Event>,
    /// For tests: the process of this rank aborts before this step, both counted as for --fail.
    #[arg(long, value_name = "RANK:STEP")]
    pub(crate) kill: Option<Event>,
}

/// The argument of `--reduce`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reduce {
    /// As fits the devices.
    Auto,
    /// By NCCL, between GPUs.
    Nccl,
    /// Through host memory.
    Host,
}

/// A number of bytes, such as 25MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit: Option<gpucache::Limit> = text.parse().ok();
        let bytes = limit.and_then(|limit| limit.bytes(None).ok()).filter(|&bytes| bytes >= 4);
        bytes
            .filter(|&bytes| bytes < u64::MAX)
            .map(Self)
            .ok_or_else(|| "write a size of at least 4 bytes as 25MiB or 500kB".to_owned())
    }
}

/// A step of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) rank: usize,
    /// Counted from 1.
    pub(crate) step: u32,
}

impl FromStr for Event {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').and_then(|(rank, step)| Some((rank.parse().ok()?, step.parse().ok()?)));
        parts.map(|(rank, step)| Self { rank, step }).ok_or_else(|| "write a rank and a step as 1:20".to_owned())
    }
}

/// The values of options that were left out, for one kind of device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    sizes: sizes::Defaults,
    bucket_bytes: u64,
}

impl Defaults {
    pub(crate) const HOST: Self = Self { sizes: sizes::ON_THE_HOST, bucket_bytes: 64 << 10 };
    /// PyTorch's buckets have as many bytes.
    pub(crate) const GPU: Self = Self { sizes: sizes::ON_A_GPU, bucket_bytes: 25 << 20 };
}

impl Options {
    /// The sizes of the network, and of the batch of all ranks.
    pub(crate) fn sizes(&self, defaults: Defaults, vocabulary: usize) -> Result<Sizes> {
        self.sizes.or(defaults.sizes).sizes(vocabulary).checked()
    }

    /// The most numbers of a bucket.
    pub(crate) fn bucket_numbers(&self, defaults: Defaults) -> usize {
        let bytes = self.bucket.map_or(defaults.bucket_bytes, |size| size.0);
        usize::try_from(bytes / 4).unwrap_or(usize::MAX)
    }

    /// The options that all ranks must share, each as name and value.
    pub(crate) fn shared(&self, defaults: Defaults) -> Vec<(String, String)> {
        let on_or_off = |is_on: bool| if is_on { "on" } else { "off" }.to_owned();
        let Sizes { layers, width, heads, context, batch, .. } = self.sizes.or(defaults.sizes).sizes(0);
        let bucket = self.bucket.map_or(defaults.bucket_bytes, |size| size.0);
        [
            ("--reduce", named(&self.reduce)),
            ("--bucket", format!("{bucket} bytes")),
            ("--shard", on_or_off(self.shard)),
            ("--placement", named(&self.placement)),
            ("--preallocated", on_or_off(self.preallocated)),
            ("--steps", self.steps.to_string()),
            ("--layers", layers.to_string()),
            ("--width", width.to_string()),
            ("--heads", heads.to_string()),
            ("--context", context.to_string()),
            ("--batch", batch.to_string()),
            ("--seed", self.seed.to_string()),
            ("--check", on_or_off(self.check)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}

/// A value as on the command line.
fn named(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_events_are_read() {
        assert_eq!("25MiB".parse(), Ok(Size(25 << 20)));
        assert_eq!("2:14".parse(), Ok(Event { rank: 2, step: 14 }));
        for wrong in ["", "2", "50%", "none", "soft", "-1"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong:?} is no size");
        }
        for wrong in ["", "2", "x:1", "1:x", ":", "-1:2"] {
            assert!(wrong.parse::<Event>().is_err(), "{wrong:?} is no event");
        }
    }
}
