//! The report of rank 0 at the end: for people, or as one JSON object.

use std::fmt;

use crate::common::Result;
use crate::figures::Figures;
use crate::gpt::sizes::Sizes;
use crate::gpt::store::Placement;
use crate::options::Options;

/// A training on all ranks.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Report {
    ranks: usize,
    layers: usize,
    width: usize,
    heads: usize,
    context: usize,
    /// Sequences of all ranks in a step.
    batch: usize,
    seed: u64,
    parameters: usize,
    buckets: usize,
    is_sharded: bool,
    is_preallocated: bool,
    placement: Placement,
    /// Mean cross-entropy of each step over all ranks, in nats per letter.
    losses: Vec<f32>,
    /// The speed of the second half of the steps. In the first half the program reserves memory and learns the order of uses.
    steps_per_second: f64,
    each: Vec<Figures>,
}

impl Report {
    /// # Errors
    /// If the ranks have compared their parameters, and they differ.
    pub(crate) fn new(options: &Options, sizes: &Sizes, buckets: usize, each: Vec<Figures>) -> Result<Self> {
        if let Some(other) = each.iter().find(|other| other.checksum != each[0].checksum) {
            let (found, expected) = (&other.checksum, &each[0].checksum);
            return Err(format!(
                "the parameters of rank {} differ from those of rank 0 (checksums {found} and {expected}): ranks on other kinds of GPUs may sum in another order",
                other.rank
            )
            .into());
        }
        let loss =
            |step: usize| each.iter().filter_map(|rank| rank.loss_sums.get(step)).sum::<f64>() / sizes.rows() as f64;
        let seconds = each.first().map_or(&[][..], |rank| &rank.step_seconds);
        let timed = &seconds[seconds.len() / 2..];
        Ok(Self {
            ranks: each.len(),
            layers: sizes.layers,
            width: sizes.width,
            heads: sizes.heads,
            context: sizes.context,
            batch: sizes.batch,
            seed: options.seed,
            parameters: sizes.parameters(),
            buckets,
            is_sharded: options.shard,
            is_preallocated: options.preallocated,
            placement: options.placement,
            losses: (0..seconds.len()).map(|step| loss(step) as f32).collect(),
            steps_per_second: timed.len() as f64 / timed.iter().sum::<f64>(),
            each,
        })
    }

    #[cfg(test)]
    pub(crate) fn losses(&self) -> &[f32] {
        &self.losses
    }

    #[cfg(test)]
    pub(crate) fn each(&self) -> &[Figures] {
        &self.each
    }
}

/// A number of things, as "1 rank" or "2 ranks".
pub(crate) fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, parameters, .. } = self;
        let (layers, heads, buckets) =
            (counted(self.layers, "layer"), counted(self.heads, "head"), counted(self.buckets, "bucket"));
        writeln!(f, "network   {layers}, width {width}, {heads}, {parameters} parameters in {buckets}")?;
        let (batch, context) = (counted(self.batch, "sequence"), counted(self.context, "letter"));
        writeln!(f, "step      {batch} of {context}, shared by {}", counted(self.ranks, "rank"))?;
        if let (Some(first), Some(last)) = (self.losses.first(), self.losses.last()) {
            writeln!(f, "loss      {first:.4} in the first step, {last:.4} in step {}", self.losses.len())?;
        }
        writeln!(f, "speed     {:.2} steps/s", self.steps_per_second)?;
        if self.each.iter().all(|rank| !rank.checksum.is_empty()) {
            writeln!(f, "check     the parameters of all ranks are equal to the bit")?;
        }
        write!(f, "\nrank  device   MiB reserved  peak live  optimizer  communication hidden")?;
        self.each.iter().try_for_each(|rank| write!(f, "\n{rank}"))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let (reserved, live) = (mebibytes(self.reserved_bytes), mebibytes(self.live_bytes));
        write!(
            f,
            "{:4}  {:7}  {reserved:12.2}  {live:9.2}  {:9.2}",
            self.rank,
            self.device,
            mebibytes(self.optimizer_bytes)
        )?;
        match self.hidden_share {
            Some(share) => write!(f, "  {:18.0} %", 100.0 * share),
            None => write!(f, "  {:>20}", "none"),
        }
    }
}
