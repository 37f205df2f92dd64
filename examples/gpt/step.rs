//! The context of one step, which all parts of the network need: a machine, a store, and the numbers of the step.

use gpucache::prelude::*;

use crate::common::Result;
use crate::gpt::compute::{AdamW, Compute, Factor, Matrix};
use crate::gpt::store::{Held, Store};

/// One step, forward and backward.
pub(crate) struct Step<'a, C: Compute> {
    pub(crate) compute: &'a C,
    pub(crate) store: &'a Store<C::Device>,
    /// Tokens in a sequence.
    pub(crate) context: usize,
    /// Heads of each attention.
    pub(crate) heads: usize,
    /// The use of each gradient in the backward pass.
    pub(crate) learn: Learn<'a, C>,
}

/// What becomes of the gradient of a parameter.
pub(crate) enum Learn<'a, C: Compute> {
    /// It updates the parameter at once.
    AtOnce(AdamW),
    /// The program collects it, and updates parameters later.
    Collected(&'a dyn Collect<C>),
}

/// Collects gradients in the order in which the backward pass computes them.
pub(crate) trait Collect<C: Compute> {
    /// Takes the gradient of the parameter of this [`index`](crate::gpt::parameter::Parameter::index).
    fn add(&self, compute: &C, parameter: usize, gradient: Held<C::Device>) -> Result<()>;
}

/// Whether a product uses a factor as it is stored, or transposed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    AsIs,
    Transposed,
}

/// A factor that is kept in the store.
type HeldFactor<'a, D> = (&'a Held<D>, Turn);

impl Turn {
    fn of<D: Device>(self, array: &Matrix<D>) -> Factor<'_, D> {
        match self {
            Self::AsIs => Factor::AsIs(array),
            Self::Transposed => Factor::Transposed(array),
        }
    }
}

impl<C: Compute> Step<'_, C> {
    /// An array for an operation to write, which later operations use.
    pub(crate) fn fill(&self, shape: [usize; 2]) -> Result<Held<C::Device>> {
        self.store.fill(shape)
    }

    /// The gradient of a bias: the sum of the rows of the gradient `x`, as one row of `columns` numbers.
    pub(crate) fn sum_rows(&self, x: &Matrix<C::Device>, columns: usize) -> Result<Held<C::Device>> {
        let mut sum = self.fill([1, columns])?;
        self.compute.sum_rows(x, &mut *sum.write()?)?;
        Ok(sum)
    }

    /// `out = a · b + beta · out`.
    pub(crate) fn matmul(
        &self,
        (a, a_turn): HeldFactor<'_, C::Device>,
        (b, b_turn): HeldFactor<'_, C::Device>,
        beta: f32,
        out: &mut Held<C::Device>,
    ) -> Result<()> {
        let (a, b) = (a.read()?, b.read()?);
        self.compute.matmul(a_turn.of(&a), b_turn.of(&b), beta, &mut *out.write()?)
    }

    /// `scale · a · b` for all sequences and heads, whose results have this shape together.
    pub(crate) fn products(
        &self,
        (a, a_turn): HeldFactor<'_, C::Device>,
        (b, b_turn): HeldFactor<'_, C::Device>,
        scale: f32,
        shape: [usize; 2],
    ) -> Result<Held<C::Device>> {
        let mut out = self.fill(shape)?;
        let (a, b) = (a.read()?, b.read()?);
        let tables = shape[0] / self.context;
        self.compute.batched_matmul(tables, a_turn.of(&a), b_turn.of(&b), scale, &mut *out.write()?)?;
        Ok(out)
    }
}
