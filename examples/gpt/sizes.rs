//! The sizes of the network and its batches.

use crate::common::Result;

/// Sizes of the network, and of the data of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Blocks of attention and perceptron.
    pub(crate) layers: usize,
    /// Numbers that represent one token between blocks.
    pub(crate) width: usize,
    /// Heads of each attention, which share the width.
    pub(crate) heads: usize,
    /// Tokens in a sequence.
    pub(crate) context: usize,
    /// Sequences in a step.
    pub(crate) batch: usize,
    /// The number of different tokens.
    pub(crate) vocabulary: usize,
}

/// The sizes on a command line. Those that are left out have defaults.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct SizeOptions {
    /// Number of blocks, each with an attention and a perceptron. [default: 2 on the host, 6 on a GPU]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    layers: Option<u32>,
    /// Number of elements per letter between blocks. [default: 64 on the host, 512 on a GPU]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    width: Option<u32>,
    /// Number of attention heads, which share the width. [default: 4 on the host, 8 on a GPU]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    heads: Option<u32>,
    /// Number of letters in a sequence. [default: 64 on the host, 256 on a GPU]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    context: Option<u32>,
    /// Number of sequences in a step, which all ranks share. [default: 8 on the host, 16 on a GPU]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
}

/// Default sizes: layers, width, heads, context and batch.
pub(crate) type Defaults = [u32; 5];

/// Training takes seconds on two cores with these sizes.
pub(crate) const ON_THE_HOST: Defaults = [2, 64, 4, 64, 8];
/// About a gigabyte, so that pages of 2 MiB are a small fraction of it.
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
pub(crate) const ON_A_GPU: Defaults = [6, 512, 8, 256, 16];

impl SizeOptions {
    /// These sizes, with defaults for those that were left out.
    pub(crate) fn or(mut self, [layers, width, heads, context, batch]: Defaults) -> SizeOptions {
        self.layers.get_or_insert(layers);
        self.width.get_or_insert(width);
        self.heads.get_or_insert(heads);
        self.context.get_or_insert(context);
        self.batch.get_or_insert(batch);
        self
    }

    /// The sizes of a network. Those that were left out are the host's.
    pub(crate) fn sizes(self, vocabulary: usize) -> Sizes {
        let SizeOptions { layers, width, heads, context, batch } = self.or(ON_THE_HOST);
        let [layers, width, heads, context, batch] =
            [layers, width, heads, context, batch].map(|size| size.unwrap_or_default() as usize);
        Sizes { layers, width, heads, context, batch, vocabulary }
    }
}

impl Sizes {
    /// # Errors
    /// If the heads do not share the width evenly, or the size of a table overflows.
    pub(crate) fn checked(self) -> Result<Self> {
        if !self.width.is_multiple_of(self.heads) {
            return Err(format!("a width of {} is not shared evenly by {} heads", self.width, self.heads).into());
        }
        let tokens = self.batch.checked_mul(self.context);
        let largest = tokens.and_then(|tokens| tokens.checked_mul(self.context.max(4 * self.width)));
        match largest.and_then(|largest| largest.checked_mul(self.heads)) {
            Some(_) => Ok(self),
            None => Err("these sizes are more than can be counted".into()),
        }
    }

    /// Tokens in a step.
    pub(crate) fn rows(&self) -> usize {
        self.batch * self.context
    }

    /// The number of trained numbers.
    pub(crate) fn parameters(&self) -> usize {
        let Self { layers, width, context, vocabulary, .. } = *self;
        let block = 12 * width * width + 13 * width;
        layers * block + (2 * vocabulary + context + 2) * width
    }
}
