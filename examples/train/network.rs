//! A perceptron with two hidden layers: `64 → 256 → 128 → 10`, ReLU between them.
//!
//! Every activation and gradient is a new array. It is allocated where it is needed, and dropped where it is no longer needed. This
//! code does not plan memory. The parameters are allocated outside of scopes and live as long as the network, unless each step
//! replaces them (`--functional`).

use gpucache::prelude::*;

use crate::buffers::Buffer;
use crate::common::Result;
use crate::compute::{Adam, Compute, Factor, Matrix, Parameter};
use crate::data::{CLASSES, PIXELS};
use crate::step::Step;

/// Widths of the hidden layers.
pub(crate) const HIDDEN: [usize; 2] = [256, 128];

pub(crate) struct Network<D: Device> {
    first: Layer<D>,
    second: Layer<D>,
    third: Layer<D>,
}

/// `x · weight + bias`.
struct Layer<D: Device> {
    /// Inputs × outputs.
    weight: Parameter<D>,
    /// `1 × outputs`.
    bias: Parameter<D>,
}

/// The arrays of the forward pass that the backward pass needs.
pub(crate) struct Activations<'a, D: Device> {
    pub(crate) hidden: [Buffer<'a, D>; 2],
    pub(crate) logits: Buffer<'a, D>,
}

impl<D: Device> Network<D> {
    pub(crate) fn new(device: &D, random: &mut fastrand::Rng) -> Result<Self> {
        Ok(Self {
            first: Layer::new(device, PIXELS, HIDDEN[0], random)?,
            second: Layer::new(device, HIDDEN[0], HIDDEN[1], random)?,
            third: Layer::new(device, HIDDEN[1], CLASSES, random)?,
        })
    }

    pub(crate) fn forward<'a, C: Compute<Device = D>>(
        &self,
        step: &mut Step<'a, C>,
        images: &Matrix<D>,
    ) -> Result<Activations<'a, D>> {
        let first = self.first.hidden(step, images)?;
        let second = self.second.hidden(step, &first)?;
        let logits = self.third.linear(step, &second)?;
        Ok(Activations { hidden: [first, second], logits })
    }

    /// Weight and bias of each layer, in the order of the forward pass.
    pub(crate) fn parameters_mut(&mut self) -> [&mut Parameter<D>; 6] {
        let Self { first, second, third } = self;
        [&mut first.weight, &mut first.bias, &mut second.weight, &mut second.bias, &mut third.weight, &mut third.bias]
    }

    /// The same, to look at.
    #[cfg(test)]
    pub(crate) fn parameters(&self) -> [&Parameter<D>; 6] {
        let Self { first, second, third } = self;
        [&first.weight, &first.bias, &second.weight, &second.bias, &third.weight, &third.bias]
    }

    /// Goes from the gradient at the logits back through the layers. A layer learns as soon as the gradient at its input is known. So
    /// the weight gradients of only one layer are live at a time.
    pub(crate) fn learn<'a, C: Compute<Device = D>>(
        &mut self,
        step: &mut Step<'a, C>,
        adam: Adam,
        images: &Matrix<D>,
        hidden: [Buffer<'a, D>; 2],
        at_logits: Buffer<'a, D>,
    ) -> Result<()> {
        let [first, second] = hidden;
        let at_second = self.third.input_gradient(step, &second, &at_logits)?;
        self.third.learn(step, adam, &second, at_logits)?;
        drop(second);
        let at_first = self.second.input_gradient(step, &first, &at_second)?;
        self.second.learn(step, adam, &first, at_second)?;
        drop(first);
        self.first.learn(step, adam, images, at_first)
    }
}

impl<D: Device> Layer<D> {
    /// Weights drawn uniformly from ±√(6 / inputs) (He et al. 2015), the right scale before a ReLU.
    fn new(device: &D, inputs: usize, outputs: usize, random: &mut fastrand::Rng) -> Result<Self> {
        let limit = (6.0 / inputs as f32).sqrt();
        let weight: Vec<f32> = (0..inputs * outputs).map(|_| limit * (2.0 * random.f32() - 1.0)).collect();
        Ok(Self {
            weight: Parameter::new(Matrix::from_slice(device, [inputs, outputs], &weight)?)?,
            bias: Parameter::new(Matrix::zeros(device, [1, outputs])?)?,
        })
    }

    fn linear<'a, C: Compute<Device = D>>(&self, step: &mut Step<'a, C>, x: &Matrix<D>) -> Result<Buffer<'a, D>> {
        let mut y = step.matmul(Factor::AsIs(x), Factor::AsIs(&self.weight.value))?;
        step.compute.add_bias(&self.bias.value, &mut y)?;
        Ok(y)
    }

    fn hidden<'a, C: Compute<Device = D>>(&self, step: &mut Step<'a, C>, x: &Matrix<D>) -> Result<Buffer<'a, D>> {
        let linear = self.linear(step, x)?;
        // At the end `linear` is dropped, and the next array of its shape gets its memory. A GPU may still read it then. That is
        // correct, because the work that writes there comes later in the same stream.
        step.relu(&linear)
    }

    /// The gradient before the ReLU whose output is `input`, from the gradient at this layer's output.
    fn input_gradient<'a, C: Compute<Device = D>>(
        &self,
        step: &mut Step<'a, C>,
        input: &Matrix<D>,
        at_output: &Matrix<D>,
    ) -> Result<Buffer<'a, D>> {
        let behind = step.matmul(Factor::AsIs(at_output), Factor::Transposed(&self.weight.value))?;
        step.relu_gradient(input, &behind)
    }

    fn learn<'a, C: Compute<Device = D>>(
        &mut self,
        step: &mut Step<'a, C>,
        adam: Adam,
        input: &Matrix<D>,
        at_output: Buffer<'a, D>,
    ) -> Result<()> {
        let weight = step.matmul(Factor::Transposed(input), Factor::AsIs(&at_output))?;
        let bias = step.sum_rows(&at_output)?;
        step.adam(adam, &weight, &mut self.weight)?;
        step.adam(adam, &bias, &mut self.bias)
    }
}

impl<D: Device> Parameter<D> {
    fn new(value: Matrix<D>) -> Result<Self> {
        let device = value.device().clone();
        let (mean, square) = (Matrix::zeros(&device, value.shape())?, Matrix::zeros(&device, value.shape())?);
        Ok(Self { value, mean, square })
    }
}
