//! A layer norm: scales each row to mean 0 and variance 1, multiplies it by a gain, and adds a bias.

use gpucache::prelude::*;

use crate::common::Result;
use crate::gpt::compute::Compute;
use crate::gpt::parameter::{Init, Parameter};
use crate::gpt::step::Step;
use crate::gpt::store::Held;

#[derive(Debug)]
pub(crate) struct Norm<D: Device> {
    /// `1 × width`.
    pub(crate) gain: Parameter<D>,
    /// `1 × width`.
    pub(crate) bias: Parameter<D>,
}

impl<D: Device> Norm<D> {
    pub(crate) fn new<C: Compute<Device = D>>(init: &mut Init<'_, C>, width: usize) -> Result<Self> {
        Ok(Self { gain: init.constant([1, width], 1.0)?, bias: init.constant([1, width], 0.0)? })
    }

    pub(crate) fn forward<C: Compute<Device = D>>(&self, step: &Step<'_, C>, x: &Held<D>) -> Result<Held<D>> {
        let mut out = step.fill(x.shape())?;
        let (gain, bias) = (self.gain.value.read()?, self.bias.value.read()?);
        step.compute.layer_norm(&*x.read()?, &gain, &bias, &mut *out.write()?)?;
        Ok(out)
    }

    /// Adds the gradient at `x` to `sum`, computed from that at the output, and updates gain and bias.
    pub(crate) fn backward<C: Compute<Device = D>>(
        &mut self,
        step: &Step<'_, C>,
        x: &Held<D>,
        at_out: Held<D>,
        sum: &mut Held<D>,
    ) -> Result<()> {
        let [rows, width] = x.shape();
        let (x, at_out) = (x.read()?, at_out.read()?);
        step.compute.layer_norm_gradient(&x, &*self.gain.value.read()?, &at_out, &mut *sum.write()?)?;
        let mut product = step.store.lend([rows, width])?;
        step.compute.normalized_product(&x, &at_out, &mut product.array)?;
        let at_gain = step.sum_rows(&product.array, width)?;
        let at_bias = step.sum_rows(&at_out, width)?;
        step.store.give_back(product);
        drop((x, at_out));
        self.gain.learn(step, at_gain)?;
        self.bias.learn(step, at_bias)
    }
}
