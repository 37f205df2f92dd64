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

/// The sizes on a command line. Sizes that are left out have defaults.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct SizeOptions {
    /// Number of blocks, each with an attention and a perceptron, at most 4096. [default: 2 on the host, 6 on a GPU]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
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

    /// The sizes of a network. Sizes that were left out are the host's.
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
        let activations = largest.and_then(|largest| largest.checked_mul(self.heads));
        // Four arrays of all parameters: values, gradients and the optimizer's two moments.
        let state = self.counted().and_then(|parameters| parameters.checked_mul(4 * size_of::<f32>()));
        match (activations, state) {
            (Some(_), Some(_)) => Ok(self),
            _ => Err("these sizes are more than can be counted: set --width, --batch or --context to less".into()),
        }
    }

    /// Tokens in a step.
    pub(crate) fn rows(&self) -> usize {
        self.batch * self.context
    }

    /// The number of trained numbers.
    pub(crate) fn parameters(&self) -> usize {
        self.counted().unwrap_or(usize::MAX)
    }

    /// The same, unless it overflows.
    fn counted(&self) -> Option<usize> {
        let Self { layers, width, context, vocabulary, .. } = *self;
        let block = width.checked_mul(12)?.checked_add(13)?.checked_mul(width)?;
        let tables = vocabulary.checked_mul(2)?.checked_add(context)?.checked_add(2)?.checked_mul(width)?;
        layers.checked_mul(block)?.checked_add(tables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Sizes = Sizes { layers: 2, width: 64, heads: 4, context: 64, batch: 8, vocabulary: 70 };

    #[test]
    fn parameters_are_those_of_the_parts() {
        // Four matrices of an attention, two of a perceptron, their biases and norms; tables of letters and places, and the last norm.
        let block = 4 * (64 * 64) + 2 * (64 * 256) + 13 * 64;
        assert_eq!(SMALL.parameters(), 2 * block + 70 * 64 + 64 * 64 + 2 * 64 + 64 * 70);
        assert!(SMALL.checked().is_ok());
    }

    #[test]
    fn sizes_that_overflow_are_errors() {
        let huge = u32::MAX as usize;
        for sizes in [
            Sizes { width: huge, heads: 1, ..SMALL },
            Sizes { batch: huge, context: huge, ..SMALL },
            Sizes { layers: huge, width: 1 << 20, ..SMALL },
        ] {
            assert!(sizes.checked().unwrap_err().to_string().contains("more than can be counted"), "{sizes:?}");
        }
    }
}
