//! The operations of the network. The network and its training step are written once, for any [`Compute`]. `host.rs` and `cuda.rs`
//! do the arithmetic.

use gpucache::{Element, prelude::*};
use std::cell::RefMut;

use crate::common::Result;

/// A row-major table of numbers on a device. A vector is a table of one row.
pub(crate) type Matrix<D> = Array<f32, D>;

/// A factor of a matrix product, as it is stored or transposed.
pub(crate) enum Factor<'a, D: Device> {
    AsIs(&'a Matrix<D>),
    Transposed(&'a Matrix<D>),
}

/// A trained array with the two running means that Adam keeps of its gradient.
pub(crate) struct Parameter<D: Device> {
    pub(crate) value: Matrix<D>,
    /// Running mean of the gradient.
    pub(crate) mean: Matrix<D>,
    /// Running mean of its square.
    pub(crate) square: Matrix<D>,
}

/// A number that differs from step to step. A graph repeats the numbers of the host, so a captured step finds it on the device.
#[derive(Debug)]
pub(crate) struct Number<'a, T: Element, D: Device> {
    /// The number as the host knows it. In a captured step, it is that of the step that was captured.
    pub(crate) value: T,
    /// Where the device finds the number, if it is there.
    pub(crate) at: Option<&'a Array<T, D>>,
}

impl<T: Element, D: Device> Clone for Number<'_, T, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Element, D: Device> Copy for Number<'_, T, D> {}

/// Adam's numbers for one step (Kingma and Ba 2015, in the form at the end of their section 2: the correction of the running
/// means is folded into the rate).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adam {
    /// Learning rate of this step, corrected for the start. A captured step uses the [`Number`] on the device instead.
    pub(crate) rate: f32,
    pub(crate) mean_decay: f32,
    pub(crate) square_decay: f32,
    pub(crate) epsilon: f32,
}

/// A device and the operations on its arrays.
///
/// Every operation writes each element of its outputs, so outputs need not be cleared. Shapes that do not match are an error. Work
/// may still be pending when a call returns. Later calls see its results.
pub(crate) trait Compute {
    type Device: Device;

    fn device(&self) -> &Self::Device;

    /// The name of the device on the command line.
    fn name(&self) -> String;

    /// Memory that operations write beside their outputs, if steps are captured.
    fn workspace(&self) -> Option<RefMut<'_, Array<u8, Self::Device>>> {
        None
    }

    /// `out = a · b`.
    fn matmul(
        &self,
        a: Factor<'_, Self::Device>,
        b: Factor<'_, Self::Device>,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// Row `i` of `out` = row `order[start + i]` of `table`, or zeros if there is no such row.
    fn gather(
        &self,
        table: &Matrix<Self::Device>,
        order: &Array<u32, Self::Device>,
        start: Number<'_, u32, Self::Device>,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// `x += bias`, row by row.
    fn add_bias(&self, bias: &Matrix<Self::Device>, x: &mut Matrix<Self::Device>) -> Result<()>;

    /// `out = max(x, 0)`.
    fn relu(&self, x: &Matrix<Self::Device>, out: &mut Matrix<Self::Device>) -> Result<()>;

    /// The gradient at the input of a ReLU, from its `output` and the `gradient` at its output.
    fn relu_gradient(
        &self,
        output: &Matrix<Self::Device>,
        gradient: &Matrix<Self::Device>,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// The gradient of the mean cross-entropy between `softmax(logits)` and `targets`. The loss of row `i` goes to
    /// `losses[start + i]`, and the step does not wait for it.
    fn softmax_cross_entropy(
        &self,
        logits: &Matrix<Self::Device>,
        targets: &Matrix<Self::Device>,
        start: Number<'_, u32, Self::Device>,
        losses: &mut Matrix<Self::Device>,
        gradient: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// `out` = the sum of the rows of `x`.
    fn sum_rows(&self, x: &Matrix<Self::Device>, out: &mut Matrix<Self::Device>) -> Result<()>;

    /// Moves a parameter against its gradient at this rate, in place.
    fn adam(
        &self,
        adam: Adam,
        rate: Number<'_, f32, Self::Device>,
        gradient: &Matrix<Self::Device>,
        parameter: &mut Parameter<Self::Device>,
    ) -> Result<()>;

    /// `new` = value, mean and square of `old`, moved against the gradient. Every bit equals the result of [`Compute::adam`].
    fn moved_by_adam(
        &self,
        adam: Adam,
        rate: Number<'_, f32, Self::Device>,
        gradient: &Matrix<Self::Device>,
        old: &Parameter<Self::Device>,
        new: [&mut Matrix<Self::Device>; 3],
    ) -> Result<()>;
}
