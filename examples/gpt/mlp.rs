//! A perceptron for each token: a layer to four times the width, GELU, and a layer back to the width.

use gpucache::prelude::*;

use crate::common::Result;
use crate::gpt::compute::Compute;
use crate::gpt::linear::Linear;
use crate::gpt::parameter::Init;
use crate::gpt::step::Step;
use crate::gpt::store::Held;

#[derive(Debug)]
pub(crate) struct Mlp<D: Device> {
    pub(crate) up: Linear<D>,
    pub(crate) down: Linear<D>,
}

/// Values of the forward pass that the backward pass needs. The backward pass computes GELU again.
#[derive(Debug)]
pub(crate) struct Saved<D: Device> {
    input: Held<D>,
    /// The input of GELU.
    hidden: Held<D>,
}

impl<D: Device> Mlp<D> {
    /// `out_scale` scales the weights of the last layer, whose result is added to the tokens.
    pub(crate) fn new<C: Compute<Device = D>>(init: &mut Init<'_, C>, width: usize, out_scale: f32) -> Result<Self> {
        let up = Linear::new(init, width, 4 * width, 1.0)?;
        Ok(Self { up, down: Linear::new(init, 4 * width, width, out_scale)? })
    }

    pub(crate) fn forward<C: Compute<Device = D>>(
        &self,
        step: &Step<'_, C>,
        input: Held<D>,
    ) -> Result<(Held<D>, Saved<D>)> {
        let hidden = self.up.forward(step, &input)?;
        let out = self.down.forward(step, &gelu(step, &hidden)?)?;
        Ok((out, Saved { input, hidden }))
    }

    /// Computes the gradient at the input from that at the output.
    pub(crate) fn backward<C: Compute<Device = D>>(
        &mut self,
        step: &Step<'_, C>,
        saved: Saved<D>,
        at_out: &Held<D>,
    ) -> Result<Held<D>> {
        let Saved { input, hidden } = saved;
        let mut at_hidden = step.fill(hidden.shape())?;
        self.down.input_gradient(step, at_out, 0.0, &mut at_hidden)?;
        self.down.learn(step, &gelu(step, &hidden)?, at_out)?;
        step.compute.gelu_gradient(&*hidden.read()?, &mut *at_hidden.write()?)?;
        drop(hidden);
        let mut at_input = step.fill(input.shape())?;
        self.up.input_gradient(step, &at_hidden, 0.0, &mut at_input)?;
        self.up.learn(step, &input, &at_hidden)?;
        Ok(at_input)
    }
}

fn gelu<C: Compute>(step: &Step<'_, C>, x: &Held<C::Device>) -> Result<Held<C::Device>> {
    let mut out = step.fill(x.shape())?;
    step.compute.gelu(&*x.read()?, &mut *out.write()?)?;
    Ok(out)
}
