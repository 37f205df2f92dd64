//! Trained arrays: their initial values, and their updates.

use gpucache::prelude::*;

use crate::common::Result;
use crate::compute::{COUNTED_IN, Compute, Matrix, mixed};
use crate::step::Step;
use crate::store::{Held, Store};

/// A trained array with AdamW's two running means of its gradient.
#[derive(Debug)]
pub(crate) struct Parameter<D: Device> {
    pub(crate) value: Held<D>,
    /// Running mean of the gradient.
    pub(crate) mean: Held<D>,
    /// Running mean of its square.
    square: Held<D>,
}

/// Creates parameters one after the other. Each is determined by the seed and its place in the order.
pub(crate) struct Init<'a, C: Compute> {
    compute: &'a C,
    store: &'a Store<C::Device>,
    key: u64,
}

impl<'a, C: Compute> Init<'a, C> {
    pub(crate) fn new(compute: &'a C, store: &'a Store<C::Device>, seed: u64) -> Self {
        Self { compute, store, key: mixed(seed) }
    }

    /// A parameter with random values, uniform in ±`limit`.
    pub(crate) fn uniform(&mut self, shape: [usize; 2], limit: f32) -> Result<Parameter<C::Device>> {
        self.key = mixed(self.key.wrapping_add(COUNTED_IN));
        let mut value = self.store.fill(shape)?;
        self.compute.uniform(self.key, limit, &mut *value.write()?)?;
        self.parameter(value)
    }

    /// A parameter whose values all equal `number`.
    pub(crate) fn constant(&self, shape: [usize; 2], number: f32) -> Result<Parameter<C::Device>> {
        self.parameter(self.store.hold(Matrix::full(self.store.device(), shape, number)?)?)
    }

    fn parameter(&self, value: Held<C::Device>) -> Result<Parameter<C::Device>> {
        let shape = value.shape();
        Ok(Parameter { value, mean: self.store.zeros(shape)?, square: self.store.zeros(shape)? })
    }
}

impl<D: Device> Parameter<D> {
    /// Moves the parameter against its gradient, which is dropped. Tables decay; single rows (biases, gains, positions) do not.
    pub(crate) fn learn<C: Compute<Device = D>>(&mut self, step: &Step<'_, C>, gradient: Held<D>) -> Result<()> {
        let mut numbers = step.adamw;
        if self.value.shape()[0] == 1 {
            numbers.decay = 0.0;
        }
        let Self { value, mean, square } = self;
        let (gradient, mut value, mut mean, mut square) =
            (gradient.read()?, value.write()?, mean.write()?, square.write()?);
        step.compute.adamw(numbers, &gradient, [&mut value, &mut mean, &mut square])
    }
}
