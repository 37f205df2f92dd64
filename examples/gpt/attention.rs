//! Causal attention with several heads (Vaswani et al. 2017): each token attends to itself and to earlier tokens.

use gpucache::prelude::*;

use crate::common::Result;
use crate::gpt::compute::Compute;
use crate::gpt::linear::Linear;
use crate::gpt::parameter::Init;
use crate::gpt::step::Step;
use crate::gpt::step::Turn::{AsIs, Transposed};
use crate::gpt::store::Held;

#[derive(Debug)]
pub(crate) struct Attention<D: Device> {
    pub(crate) query: Linear<D>,
    pub(crate) key: Linear<D>,
    pub(crate) value: Linear<D>,
    pub(crate) out: Linear<D>,
}

/// Values of the forward pass that the backward pass needs.
#[derive(Debug)]
pub(crate) struct Saved<D: Device> {
    /// One row for each token, as in `merged`.
    input: Held<D>,
    split: Split<D>,
    merged: Held<D>,
}

/// The arrays that the heads compute with.
#[derive(Debug)]
struct Split<D: Device> {
    /// A table of context × head width for each sequence and head; the tables are stored one below the other.
    query: Held<D>,
    key: Held<D>,
    value: Held<D>,
    /// A table of context × context for each sequence and head; the tables are stored one below the other.
    probabilities: Held<D>,
}

impl<D: Device> Attention<D> {
    /// `out_scale` scales the weights of the last layer, whose result is added to the tokens.
    pub(crate) fn new<C: Compute<Device = D>>(init: &mut Init<'_, C>, width: usize, out_scale: f32) -> Result<Self> {
        Ok(Self {
            query: Linear::new(init, width, width, 1.0)?,
            key: Linear::new(init, width, width, 1.0)?,
            value: Linear::new(init, width, width, 1.0)?,
            out: Linear::new(init, width, width, out_scale)?,
        })
    }

    pub(crate) fn forward<C: Compute<Device = D>>(
        &self,
        step: &Step<'_, C>,
        input: Held<D>,
    ) -> Result<(Held<D>, Saved<D>)> {
        let project = |linear: &Linear<D>| split(step, &linear.forward(step, &input)?);
        let (query, key, value) = (project(&self.query)?, project(&self.key)?, project(&self.value)?);
        let [rows, width] = query.shape();
        let mut probabilities =
            step.products((&query, AsIs), (&key, Transposed), scale(width), [rows, step.context])?;
        step.compute.causal_softmax(&mut *probabilities.write()?)?;
        let seen = step.products((&probabilities, AsIs), (&value, AsIs), 1.0, [rows, width])?;
        let merged = merge(step, &seen)?;
        drop(seen);
        let out = self.out.forward(step, &merged)?;
        Ok((out, Saved { input, split: Split { query, key, value, probabilities }, merged }))
    }

    /// Computes the gradient at the input from that at the output. Saved values are dropped as soon as they were used.
    pub(crate) fn backward<C: Compute<Device = D>>(
        &mut self,
        step: &Step<'_, C>,
        saved: Saved<D>,
        at_out: &Held<D>,
    ) -> Result<Held<D>> {
        let Saved { input, split: saved, merged } = saved;
        let mut at_merged = step.fill(input.shape())?;
        self.out.input_gradient(step, at_out, 0.0, &mut at_merged)?;
        self.out.learn(step, &merged, at_out)?;
        drop(merged);
        let at_seen = split(step, &at_merged)?;
        drop(at_merged);
        let [at_query, at_key, at_value] = saved.backward(step, at_seen)?;
        let mut at_input = step.fill(input.shape())?;
        project_back(step, &mut self.query, at_query, (&input, &mut at_input), 0.0)?;
        project_back(step, &mut self.key, at_key, (&input, &mut at_input), 1.0)?;
        project_back(step, &mut self.value, at_value, (&input, &mut at_input), 1.0)?;
        Ok(at_input)
    }
}

impl<D: Device> Split<D> {
    /// Computes the gradients at query, key and value from that at the heads' output.
    fn backward<C: Compute<Device = D>>(self, step: &Step<'_, C>, at_seen: Held<D>) -> Result<[Held<D>; 3]> {
        let Self { query, key, value, probabilities } = self;
        let shape @ [rows, width] = query.shape();
        let at_value = step.products((&probabilities, Transposed), (&at_seen, AsIs), 1.0, shape)?;
        let mut at_scores = step.products((&at_seen, AsIs), (&value, Transposed), 1.0, [rows, step.context])?;
        drop((at_seen, value));
        step.compute.softmax_gradient(&*probabilities.read()?, &mut *at_scores.write()?)?;
        drop(probabilities);
        let at_query = step.products((&at_scores, AsIs), (&key, AsIs), scale(width), shape)?;
        drop(key);
        let at_key = step.products((&at_scores, Transposed), (&query, AsIs), scale(width), shape)?;
        Ok([at_query, at_key, at_value])
    }
}

/// Computes the gradient at the input from that at a split projection, and adds it to `beta` times `at_input`. Updates the layer's
/// parameters.
fn project_back<C: Compute>(
    step: &Step<'_, C>,
    linear: &mut Linear<C::Device>,
    at_split: Held<C::Device>,
    (input, at_input): (&Held<C::Device>, &mut Held<C::Device>),
    beta: f32,
) -> Result<()> {
    let at_projected = merge(step, &at_split)?;
    drop(at_split);
    linear.input_gradient(step, &at_projected, beta, at_input)?;
    linear.learn(step, input, &at_projected)
}

/// Scores are multiplied by this, the inverse of their standard deviation.
fn scale(head_width: usize) -> f32 {
    1.0 / (head_width as f32).sqrt()
}

fn split<C: Compute>(step: &Step<'_, C>, x: &Held<C::Device>) -> Result<Held<C::Device>> {
    let [rows, width] = x.shape();
    let mut out = step.fill([rows * step.heads, width / step.heads])?;
    step.compute.split_heads(step.context, &*x.read()?, &mut *out.write()?)?;
    Ok(out)
}

fn merge<C: Compute>(step: &Step<'_, C>, x: &Held<C::Device>) -> Result<Held<C::Device>> {
    let [rows, head_width] = x.shape();
    let mut out = step.fill([rows / step.heads, head_width * step.heads])?;
    step.compute.merge_heads(step.context, &*x.read()?, &mut *out.write()?)?;
    Ok(out)
}
