//! Trained arrays: their initial values, and their updates.

use gpucache::prelude::*;

use crate::common::Result;
use crate::gpt::compute::{AdamW, COUNTED_IN, Compute, Matrix, mixed};
use crate::gpt::step::{Learn, Step};
use crate::gpt::store::{Held, Store};

/// A trained array.
#[derive(Debug)]
pub(crate) struct Parameter<D: Device> {
    /// Its place in the order in which [`Init`] created the parameters.
    pub(crate) index: usize,
    pub(crate) value: Held<D>,
    /// `None` if the program keeps them elsewhere.
    pub(crate) moments: Option<Moments<D>>,
}

/// AdamW's two running means.
#[derive(Debug)]
pub(crate) struct Moments<D: Device> {
    /// Running mean of the gradient.
    pub(crate) mean: Held<D>,
    /// Running mean of its square.
    pub(crate) square: Held<D>,
}

/// Creates parameters one after the other. Each is determined by the seed and its place in the order.
pub(crate) struct Init<'a, C: Compute> {
    compute: &'a C,
    store: &'a Store<C::Device>,
    key: u64,
    count: usize,
    with_moments: bool,
}

impl<'a, C: Compute> Init<'a, C> {
    pub(crate) fn new(compute: &'a C, store: &'a Store<C::Device>, seed: u64) -> Self {
        Self { compute, store, key: mixed(seed), count: 0, with_moments: true }
    }

    /// Creates parameters without moments from here on.
    pub(crate) fn without_moments(self) -> Self {
        Self { with_moments: false, ..self }
    }

    /// A parameter with random values, uniform in ±`limit`.
    pub(crate) fn uniform(&mut self, shape: [usize; 2], limit: f32) -> Result<Parameter<C::Device>> {
        self.key = mixed(self.key.wrapping_add(COUNTED_IN));
        let mut value = self.store.fill(shape)?;
        self.compute.uniform(self.key, limit, &mut *value.write()?)?;
        self.parameter(value)
    }

    /// A parameter whose values all equal `number`.
    pub(crate) fn constant(&mut self, shape: [usize; 2], number: f32) -> Result<Parameter<C::Device>> {
        self.parameter(self.store.hold(Matrix::full(self.store.device(), shape, number)?)?)
    }

    fn parameter(&mut self, value: Held<C::Device>) -> Result<Parameter<C::Device>> {
        let moments = self.with_moments.then(|| Moments::zeros(self.store, value.shape())).transpose()?;
        self.count += 1;
        Ok(Parameter { index: self.count - 1, value, moments })
    }
}

impl<D: Device> Moments<D> {
    pub(crate) fn zeros(store: &Store<D>, shape: [usize; 2]) -> Result<Self> {
        Ok(Self { mean: store.zeros(shape)?, square: store.zeros(shape)? })
    }
}

impl<D: Device> Parameter<D> {
    /// The numbers of its updates. Tables decay; single rows (biases, gains, positions) do not.
    pub(crate) fn numbers(&self, adamw: AdamW) -> AdamW {
        if self.value.shape()[0] == 1 { AdamW { decay: 0.0, ..adamw } } else { adamw }
    }

    /// Moves the parameter against its gradient, or hands the gradient on, as the step says. The gradient is dropped.
    pub(crate) fn learn<C: Compute<Device = D>>(&mut self, step: &Step<'_, C>, gradient: Held<D>) -> Result<()> {
        let adamw = match step.learn {
            Learn::AtOnce(adamw) => self.numbers(adamw),
            Learn::Collected(gradients) => return gradients.add(step.compute, self.index, gradient),
        };
        let Some(Moments { mean, square }) = &mut self.moments else {
            return Err("a parameter without moments cannot be updated at once".into());
        };
        let (gradient, mut value, mut mean, mut square) =
            (gradient.read()?, self.value.write()?, mean.write()?, square.write()?);
        step.compute.adamw(adamw, &gradient, [&mut value, &mut mean, &mut square])
    }
}
