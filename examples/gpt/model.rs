//! A small GPT (Radford et al. 2019): embeddings of tokens and places, blocks, a norm, and a score for each possible next token.
//!
//! The backward pass visits the same parts in reverse order. Each part is updated as soon as its gradient is computed, so few
//! gradients are alive at the same time.

use gpucache::prelude::*;

use crate::common::Result;
use crate::gpt::block::{self, Block};
use crate::gpt::compute::{Compute, Matrix};
use crate::gpt::norm::Norm;
use crate::gpt::parameter::{Init, Parameter};
use crate::gpt::sizes::Sizes;
use crate::gpt::step::Step;
use crate::gpt::step::Turn::{AsIs, Transposed};
use crate::gpt::store::Held;

/// Tokens on the device: all sequences of a step, one after the other.
pub(crate) type Tokens<D> = Array<u32, D>;

#[derive(Debug)]
pub(crate) struct Model<D: Device> {
    /// Vocabulary × width.
    tokens: Parameter<D>,
    /// One row, with a part of the width for each place in a sequence.
    positions: Parameter<D>,
    blocks: Vec<Block<D>>,
    norm: Norm<D>,
    /// Width × vocabulary.
    head: Parameter<D>,
}

/// Values of the forward pass that the backward pass needs.
#[derive(Debug)]
pub(crate) struct Saved<D: Device> {
    blocks: Vec<block::Saved<D>>,
    /// The input and the output of the last norm.
    last: Held<D>,
    normalized: Held<D>,
    pub(crate) logits: Held<D>,
}

impl<D: Device> Model<D> {
    pub(crate) fn new<C: Compute<Device = D>>(init: &mut Init<'_, C>, sizes: &Sizes) -> Result<Self> {
        let Sizes { layers, width, context, vocabulary, .. } = *sizes;
        // The number of results that are added to each token.
        let added = (2 * layers) as f32;
        Ok(Self {
            tokens: init.uniform([vocabulary, width], 0.1)?,
            positions: init.uniform([1, context * width], 0.1)?,
            blocks: (0..layers).map(|_| Block::new(init, width, added.sqrt().recip())).collect::<Result<_>>()?,
            norm: Norm::new(init, width)?,
            head: init.uniform([width, vocabulary], 1.0 / (width as f32).sqrt())?,
        })
    }

    pub(crate) fn forward<C: Compute<Device = D>>(&self, step: &Step<'_, C>, tokens: &Tokens<D>) -> Result<Saved<D>> {
        let (mut last, mut blocks) = (self.embed(step, tokens)?, Vec::with_capacity(self.blocks.len()));
        for block in &self.blocks {
            let (out, saved) = block.forward(step, last)?;
            blocks.push(saved);
            last = out;
        }
        let normalized = self.norm.forward(step, &last)?;
        let logits = self.scores(step, &normalized)?;
        Ok(Saved { blocks, last, normalized, logits })
    }

    /// Computes only the logits. Values for a backward pass are dropped after each block.
    pub(crate) fn logits<C: Compute<Device = D>>(&self, step: &Step<'_, C>, tokens: &Tokens<D>) -> Result<Held<D>> {
        let mut last = self.embed(step, tokens)?;
        for block in &self.blocks {
            last = block.forward(step, last)?.0;
        }
        self.scores(step, &self.norm.forward(step, &last)?)
    }

    /// Writes the loss of each token to `losses`, and updates the network.
    pub(crate) fn learn<C: Compute<Device = D>>(
        &mut self,
        step: &Step<'_, C>,
        saved: Saved<D>,
        (tokens, targets): (&Tokens<D>, &Tokens<D>),
        losses: &mut Matrix<D>,
    ) -> Result<()> {
        let Saved { blocks, last, normalized, logits } = saved;
        let mut at_logits = step.fill(logits.shape())?;
        step.compute.cross_entropy(&*logits.read()?, targets, losses, &mut *at_logits.write()?)?;
        drop(logits);
        let at_normalized = self.learn_head(step, normalized, at_logits)?;
        let mut gradient = step.store.cleared(step.compute, last.shape())?;
        self.norm.backward(step, &last, at_normalized, &mut gradient)?;
        drop(last);
        for (block, saved) in self.blocks.iter_mut().zip(blocks).rev() {
            block.backward(step, saved, &mut gradient)?;
        }
        self.learn_embedding(step, tokens, gradient)
    }

    fn embed<C: Compute<Device = D>>(&self, step: &Step<'_, C>, tokens: &Tokens<D>) -> Result<Held<D>> {
        let mut out = step.fill([tokens.len(), self.tokens.value.shape()[1]])?;
        let (table, positions) = (self.tokens.value.read()?, self.positions.value.read()?);
        step.compute.embed(tokens, &table, &positions, &mut *out.write()?)?;
        Ok(out)
    }

    fn scores<C: Compute<Device = D>>(&self, step: &Step<'_, C>, normalized: &Held<D>) -> Result<Held<D>> {
        let head = &self.head.value;
        let mut out = step.fill([normalized.shape()[0], head.shape()[1]])?;
        step.matmul((normalized, AsIs), (head, AsIs), 0.0, &mut out)?;
        Ok(out)
    }

    /// Computes the gradient at the head's input from that at its output.
    fn learn_head<C: Compute<Device = D>>(
        &mut self,
        step: &Step<'_, C>,
        normalized: Held<D>,
        at_logits: Held<D>,
    ) -> Result<Held<D>> {
        let (mut at_normalized, mut at_head) = (step.fill(normalized.shape())?, step.fill(self.head.value.shape())?);
        step.matmul((&at_logits, AsIs), (&self.head.value, Transposed), 0.0, &mut at_normalized)?;
        step.matmul((&normalized, Transposed), (&at_logits, AsIs), 0.0, &mut at_head)?;
        drop((normalized, at_logits));
        self.head.learn(step, at_head)?;
        Ok(at_normalized)
    }

    fn learn_embedding<C: Compute<Device = D>>(
        &mut self,
        step: &Step<'_, C>,
        tokens: &Tokens<D>,
        gradient: Held<D>,
    ) -> Result<()> {
        let mut at_tokens = step.fill(self.tokens.value.shape())?;
        step.compute.embed_gradient(tokens, &*gradient.read()?, &mut *at_tokens.write()?)?;
        self.tokens.learn(step, at_tokens)?;
        let at_positions = step.sum_rows(&*gradient.read()?, self.positions.value.shape()[1])?;
        self.positions.learn(step, at_positions)
    }

    /// All trained arrays in the order of their indices: embeddings, each block from its first norm on, the last norm, the head.
    pub(crate) fn parameters(&self) -> Vec<&Parameter<D>> {
        let mut all = vec![&self.tokens, &self.positions];
        for Block { first_norm, attention, second_norm, mlp } in &self.blocks {
            all.extend([&first_norm.gain, &first_norm.bias]);
            for linear in [&attention.query, &attention.key, &attention.value, &attention.out] {
                all.extend([&linear.weight, &linear.bias]);
            }
            all.extend([&second_norm.gain, &second_norm.bias]);
            for linear in [&mlp.up, &mlp.down] {
                all.extend([&linear.weight, &linear.bias]);
            }
        }
        all.extend([&self.norm.gain, &self.norm.bias, &self.head]);
        all
    }

    /// The same, to change them.
    pub(crate) fn parameters_mut(&mut self) -> Vec<&mut Parameter<D>> {
        let mut all = vec![&mut self.tokens, &mut self.positions];
        for Block { first_norm, attention, second_norm, mlp } in &mut self.blocks {
            all.extend([&mut first_norm.gain, &mut first_norm.bias]);
            for linear in [&mut attention.query, &mut attention.key, &mut attention.value, &mut attention.out] {
                all.extend([&mut linear.weight, &mut linear.bias]);
            }
            all.extend([&mut second_norm.gain, &mut second_norm.bias]);
            for linear in [&mut mlp.up, &mut mlp.down] {
                all.extend([&mut linear.weight, &mut linear.bias]);
            }
        }
        all.extend([&mut self.norm.gain, &mut self.norm.bias, &mut self.head]);
        all
    }
}
