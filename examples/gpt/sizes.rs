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
