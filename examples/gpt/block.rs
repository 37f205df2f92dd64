//! One block of the network: attention and perceptron. Each comes after a norm, and its result is added to its input.

use gpucache::prelude::*;

use crate::common::Result;
use crate::gpt::attention::{self, Attention};
use crate::gpt::compute::Compute;
use crate::gpt::mlp::{self, Mlp};
use crate::gpt::norm::Norm;
use crate::gpt::parameter::Init;
use crate::gpt::step::Step;
use crate::gpt::store::Held;

#[derive(Debug)]
pub(crate) struct Block<D: Device> {
    pub(crate) first_norm: Norm<D>,
    pub(crate) attention: Attention<D>,
    pub(crate) second_norm: Norm<D>,
    pub(crate) mlp: Mlp<D>,
}

/// Values of the forward pass that the backward pass needs.
#[derive(Debug)]
pub(crate) struct Saved<D: Device> {
    input: Held<D>,
    attention: attention::Saved<D>,
    /// The values between attention and perceptron.
    middle: Held<D>,
    mlp: mlp::Saved<D>,
}

impl<D: Device> Block<D> {
    pub(crate) fn new<C: Compute<Device = D>>(init: &mut Init<'_, C>, width: usize, out_scale: f32) -> Result<Self> {
        Ok(Self {
            first_norm: Norm::new(init, width)?,
            attention: Attention::new(init, width, out_scale)?,
            second_norm: Norm::new(init, width)?,
            mlp: Mlp::new(init, width, out_scale)?,
        })
    }

    pub(crate) fn forward<C: Compute<Device = D>>(
        &self,
        step: &Step<'_, C>,
        input: Held<D>,
    ) -> Result<(Held<D>, Saved<D>)> {
        let normalized = self.first_norm.forward(step, &input)?;
        let (mut middle, attention) = self.attention.forward(step, normalized)?;
        step.compute.add(&*input.read()?, &mut *middle.write()?)?;
        let normalized = self.second_norm.forward(step, &middle)?;
        let (mut out, mlp) = self.mlp.forward(step, normalized)?;
        step.compute.add(&*middle.read()?, &mut *out.write()?)?;
        Ok((out, Saved { input, attention, middle, mlp }))
    }

    /// Turns the gradient at the output into that at the input, and updates the parameters.
    pub(crate) fn backward<C: Compute<Device = D>>(
        &mut self,
        step: &Step<'_, C>,
        saved: Saved<D>,
        gradient: &mut Held<D>,
    ) -> Result<()> {
        let Saved { input, attention, middle, mlp } = saved;
        let at_normalized = self.mlp.backward(step, mlp, gradient)?;
        self.second_norm.backward(step, &middle, at_normalized, gradient)?;
        drop(middle);
        let at_normalized = self.attention.backward(step, attention, gradient)?;
        self.first_norm.backward(step, &input, at_normalized, gradient)
    }
}
