//! A linear layer: `x · weight + bias`.

use gpucache::prelude::*;

use crate::common::Result;
use crate::gpt::compute::Compute;
use crate::gpt::parameter::{Init, Parameter};
use crate::gpt::step::Step;
use crate::gpt::step::Turn::{AsIs, Transposed};
use crate::gpt::store::Held;

#[derive(Debug)]
pub(crate) struct Linear<D: Device> {
    /// Inputs × outputs.
    pub(crate) weight: Parameter<D>,
    /// `1 × outputs`.
    pub(crate) bias: Parameter<D>,
}

impl<D: Device> Linear<D> {
    /// Weights are uniform in ±`scale / √inputs`; biases are 0.
    pub(crate) fn new<C: Compute<Device = D>>(
        init: &mut Init<'_, C>,
        inputs: usize,
        outputs: usize,
        scale: f32,
    ) -> Result<Self> {
        let weight = init.uniform([inputs, outputs], scale / (inputs as f32).sqrt())?;
        Ok(Self { weight, bias: init.constant([1, outputs], 0.0)? })
    }

    pub(crate) fn forward<C: Compute<Device = D>>(&self, step: &Step<'_, C>, x: &Held<D>) -> Result<Held<D>> {
        let (weight, [rows, _]) = (&self.weight.value, x.shape());
        let mut y = step.fill([rows, weight.shape()[1]])?;
        step.matmul((x, AsIs), (weight, AsIs), 0.0, &mut y)?;
        step.compute.add_bias(&*self.bias.value.read()?, &mut *y.write()?)?;
        Ok(y)
    }

    /// `at_x = (gradient at x) + beta · at_x`, computed from the gradient at the output.
    pub(crate) fn input_gradient<C: Compute<Device = D>>(
        &self,
        step: &Step<'_, C>,
        at_y: &Held<D>,
        beta: f32,
        at_x: &mut Held<D>,
    ) -> Result<()> {
        step.matmul((at_y, AsIs), (&self.weight.value, Transposed), beta, at_x)
    }

    /// Updates weight and bias, each as soon as its gradient is computed.
    pub(crate) fn learn<C: Compute<Device = D>>(
        &mut self,
        step: &Step<'_, C>,
        x: &Held<D>,
        at_y: &Held<D>,
    ) -> Result<()> {
        let [inputs, outputs] = self.weight.value.shape();
        let mut at_weight = step.fill([inputs, outputs])?;
        step.matmul((x, Transposed), (at_y, AsIs), 0.0, &mut at_weight)?;
        self.weight.learn(step, at_weight)?;
        let at_bias = step.sum_rows(&*at_y.read()?, outputs)?;
        self.bias.learn(step, at_bias)
    }
}
