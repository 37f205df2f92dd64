//! What the parts of the network need in one step: a machine, a store, and the numbers of the step.

use crate::common::Result;
use crate::compute::{AdamW, Compute, Matrix};
use crate::store::{Held, Store, unwritten};

/// One step, forward and backward.
pub(crate) struct Step<'a, C: Compute> {
    pub(crate) compute: &'a C,
    pub(crate) store: &'a Store<C::Device>,
    /// Tokens in a sequence.
    pub(crate) context: usize,
    /// Heads of each attention.
    pub(crate) heads: usize,
    pub(crate) adamw: AdamW,
}

impl<C: Compute> Step<'_, C> {
    /// An array for an operation to write, that later operations use.
    pub(crate) fn fill(&self, shape: [usize; 2]) -> Result<Held<C::Device>> {
        self.store.fill(shape)
    }

    /// An array for one operation alone.
    pub(crate) fn scratch(&self, shape: [usize; 2]) -> Result<Matrix<C::Device>> {
        unwritten(self.store.device(), shape)
    }

    /// The gradient of a bias: the sum of the rows of the gradient behind it, as one row of `columns` numbers.
    pub(crate) fn sum_rows(&self, x: &Matrix<C::Device>, columns: usize) -> Result<Held<C::Device>> {
        let mut sum = self.fill([1, columns])?;
        self.compute.sum_rows(x, &mut *sum.write()?)?;
        Ok(sum)
    }
}
