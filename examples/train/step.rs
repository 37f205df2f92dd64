//! The training step and the evaluation, and the scopes they run in.

use std::ops::Range;

use gpucache::prelude::*;

use crate::buffers::{Buffer, Buffers};
use crate::common::Result;
use crate::compute::{Adam, Compute, Factor, Matrix, Number, Parameter};
use crate::data::{CLASSES, PIXELS};
use crate::network::{Activations, HIDDEN, Network};
use crate::shapes;

/// The training data on the device. It is allocated outside of scopes.
pub(crate) struct TrainingSet<D: Device> {
    pub(crate) images: Matrix<D>,
    pub(crate) targets: Matrix<D>,
    /// The rows of this epoch, in the order in which they are trained on.
    pub(crate) order: Array<u32, D>,
    /// The loss of each row of `order`.
    pub(crate) losses: Matrix<D>,
}

/// One training step on the rows `batch` of the epoch.
///
/// The cache needs only this attribute. The cache `train_step` serves all arrays that are allocated until the function returns, here or in
/// functions that it calls. In the first step, their memory comes from the device. In the following steps, it is the memory of
/// dropped arrays. The last batch of an epoch is smaller, and so its arrays have other shapes. They, too, repeat in every epoch.
#[cache_scope(train_step)]
pub(crate) fn train_step<C: Compute>(
    step: Step<'_, C>,
    network: &mut Network<C::Device>,
    set: &mut TrainingSet<C::Device>,
    batch: Range<usize>,
    adam: Adam,
) -> Result<()> {
    learn(step, network, set, batch, adam)
}

/// The work of a training step, without a scope of its own.
pub(crate) fn learn<C: Compute>(
    mut step: Step<'_, C>,
    network: &mut Network<C::Device>,
    set: &mut TrainingSet<C::Device>,
    batch: Range<usize>,
    adam: Adam,
) -> Result<()> {
    let images = step.gather(&set.images, &set.order, &batch)?;
    let targets = step.gather(&set.targets, &set.order, &batch)?;
    let Activations { hidden, logits } = network.forward(&mut step, &images)?;
    let at_logits = step.softmax_cross_entropy(&logits, &targets, &batch, &mut set.losses)?;
    drop((targets, logits));
    network.learn(&mut step, adam, &images, hidden, at_logits)
}

/// The network's scores for each image, computed in another scope.
pub(crate) fn evaluate<C: Compute>(
    mut step: Step<'_, C>,
    network: &Network<C::Device>,
    images: &Matrix<C::Device>,
) -> Result<Vec<f32>> {
    gpucache::cache_scope!(eval, { Ok(network.forward(&mut step, images)?.logits.to_vec()?) })
}

/// The shapes of the arrays of [`train_step`] with a batch of so many rows, in their order. `--alloc hand` has to know them.
pub(crate) fn training_shapes(rows: usize, functional: bool) -> Vec<[usize; 2]> {
    let [first, second] = HIDDEN;
    let batch = vec![[rows, PIXELS], [rows, CLASSES]];
    let loss = vec![[rows, CLASSES]];
    let (at_second, at_first) = (vec![[rows, second]; 2], vec![[rows, first]; 2]);
    let learn = |inputs, outputs| {
        let (weight, bias) = ([inputs, outputs], [1, outputs]);
        // The gradients, and the new value, mean and square of each.
        if functional { [vec![weight, bias], vec![weight; 3], vec![bias; 3]].concat() } else { vec![weight, bias] }
    };
    let third = [at_second, learn(second, CLASSES)].concat();
    let middle = [at_first, learn(first, second)].concat();
    [batch, forward_shapes(rows), loss, third, middle, learn(PIXELS, first)].concat()
}

/// The shapes of the arrays of a forward pass, in their order.
pub(crate) fn forward_shapes(rows: usize) -> Vec<[usize; 2]> {
    let [first, second] = HIDDEN;
    vec![[rows, first], [rows, first], [rows, second], [rows, second], [rows, CLASSES]]
}

/// The operations of one step. Each allocates a new array for its result.
pub(crate) struct Step<'a, C: Compute> {
    pub(crate) compute: &'a C,
    pub(crate) buffers: Buffers<'a, C::Device>,
    /// Whether each step allocates new parameters.
    pub(crate) functional: bool,
    /// Given to captured steps.
    pub(crate) numbers: Option<Numbers<'a, C::Device>>,
}

/// The numbers on the device that differ from step to step.
pub(crate) struct Numbers<'a, D: Device> {
    /// The first row of the batch.
    pub(crate) start: &'a Array<u32, D>,
    pub(crate) rate: &'a Array<f32, D>,
}

impl<'a, C: Compute> Step<'a, C> {
    pub(crate) fn matmul(
        &mut self,
        a: Factor<'_, C::Device>,
        b: Factor<'_, C::Device>,
    ) -> Result<Buffer<'a, C::Device>> {
        let mut out = self.buffers.output([a.dims()?.0, b.dims()?.1])?;
        self.compute.matmul(a, b, &mut out)?;
        Ok(out)
    }

    pub(crate) fn relu(&mut self, x: &Matrix<C::Device>) -> Result<Buffer<'a, C::Device>> {
        let mut out = self.like(x)?;
        self.compute.relu(x, &mut out)?;
        Ok(out)
    }

    pub(crate) fn relu_gradient(
        &mut self,
        output: &Matrix<C::Device>,
        gradient: &Matrix<C::Device>,
    ) -> Result<Buffer<'a, C::Device>> {
        let mut out = self.like(output)?;
        self.compute.relu_gradient(output, gradient, &mut out)?;
        Ok(out)
    }

    pub(crate) fn sum_rows(&mut self, x: &Matrix<C::Device>) -> Result<Buffer<'a, C::Device>> {
        let mut out = self.buffers.output([1, shapes::dims(x)?.1])?;
        self.compute.sum_rows(x, &mut out)?;
        Ok(out)
    }

    /// Moves a parameter against its gradient. New arrays are allocated in the scope, like all others, and are still live when the next
    /// step allocates their successors. The old arrays are those of the step before, and are dropped here.
    pub(crate) fn adam(
        &mut self,
        adam: Adam,
        gradient: &Matrix<C::Device>,
        parameter: &mut Parameter<C::Device>,
    ) -> Result<()> {
        let rate = Number { value: adam.rate, at: self.numbers.as_ref().map(|numbers| numbers.rate) };
        if !self.functional {
            return self.compute.adam(adam, rate, gradient, parameter);
        }
        let [mut value, mut mean, mut square] = [self.like(gradient)?, self.like(gradient)?, self.like(gradient)?];
        self.compute.moved_by_adam(adam, rate, gradient, parameter, [&mut value, &mut mean, &mut square])?;
        value.replace(&mut parameter.value);
        mean.replace(&mut parameter.mean);
        square.replace(&mut parameter.square);
        Ok(())
    }

    fn gather(
        &mut self,
        table: &Matrix<C::Device>,
        order: &Array<u32, C::Device>,
        batch: &Range<usize>,
    ) -> Result<Buffer<'a, C::Device>> {
        let mut out = self.buffers.output([batch.len(), shapes::dims(table)?.1])?;
        self.compute.gather(table, order, self.start(batch)?, &mut out)?;
        Ok(out)
    }

    fn softmax_cross_entropy(
        &mut self,
        logits: &Matrix<C::Device>,
        targets: &Matrix<C::Device>,
        batch: &Range<usize>,
        losses: &mut Matrix<C::Device>,
    ) -> Result<Buffer<'a, C::Device>> {
        let mut gradient = self.like(logits)?;
        self.compute.softmax_cross_entropy(logits, targets, self.start(batch)?, losses, &mut gradient)?;
        Ok(gradient)
    }

    fn start(&self, batch: &Range<usize>) -> Result<Number<'a, u32, C::Device>> {
        Ok(Number { value: u32::try_from(batch.start)?, at: self.numbers.as_ref().map(|numbers| numbers.start) })
    }

    fn like(&mut self, x: &Matrix<C::Device>) -> Result<Buffer<'a, C::Device>> {
        let (rows, columns) = shapes::dims(x)?;
        self.buffers.output([rows, columns])
    }
}
