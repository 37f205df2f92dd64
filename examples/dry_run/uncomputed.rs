//! The operations of `train` without their arithmetic, on a device without memory: shapes are checked as on any machine, and nothing
//! is computed.
//!
//! That an output is not written breaks no promise here: there is nothing behind an address, and what is read of it is zeros.

use gpucache::device::Virtual;
use gpucache::prelude::*;

use crate::common::Result;
use crate::compute::{Adam, Compute, Factor, Matrix, Number, Parameter};
use crate::shapes;

/// Addresses in plenty: 64 TiB of them.
const CAPACITY: usize = 1 << 46;

/// A device that everything can be asked of and that does nothing.
#[derive(Debug)]
pub(crate) struct Uncomputed {
    device: Virtual,
}

impl Uncomputed {
    pub(crate) fn new() -> Self {
        Self { device: Virtual::new(CAPACITY) }
    }
}

impl Compute for Uncomputed {
    type Device = Virtual;

    fn device(&self) -> &Virtual {
        &self.device
    }

    fn name(&self) -> String {
        "virtual".to_owned()
    }

    fn matmul(&self, a: Factor<'_, Virtual>, b: Factor<'_, Virtual>, out: &mut Matrix<Virtual>) -> Result<()> {
        shapes::product(&a, &b, out).map(drop)
    }

    fn gather(
        &self,
        table: &Matrix<Virtual>,
        order: &Array<u32, Virtual>,
        start: Number<'_, u32, Virtual>,
        out: &mut Matrix<Virtual>,
    ) -> Result<()> {
        shapes::gather(table, order, start.value, out).map(drop)
    }

    fn add_bias(&self, bias: &Matrix<Virtual>, x: &mut Matrix<Virtual>) -> Result<()> {
        shapes::columns(x, bias).map(drop)
    }

    fn relu(&self, x: &Matrix<Virtual>, out: &mut Matrix<Virtual>) -> Result<()> {
        shapes::same(x, out).map(drop)
    }

    fn relu_gradient(
        &self,
        output: &Matrix<Virtual>,
        gradient: &Matrix<Virtual>,
        out: &mut Matrix<Virtual>,
    ) -> Result<()> {
        shapes::same(output, gradient)?;
        shapes::same(output, out).map(drop)
    }

    fn softmax_cross_entropy(
        &self,
        logits: &Matrix<Virtual>,
        targets: &Matrix<Virtual>,
        start: Number<'_, u32, Virtual>,
        losses: &mut Matrix<Virtual>,
        gradient: &mut Matrix<Virtual>,
    ) -> Result<()> {
        shapes::losses(logits, targets, start.value, losses, gradient).map(drop)
    }

    fn sum_rows(&self, x: &Matrix<Virtual>, out: &mut Matrix<Virtual>) -> Result<()> {
        shapes::columns(x, out).map(drop)
    }

    fn adam(
        &self,
        _adam: Adam,
        _rate: Number<'_, f32, Virtual>,
        gradient: &Matrix<Virtual>,
        parameter: &mut Parameter<Virtual>,
    ) -> Result<()> {
        shapes::parameter(gradient, parameter).map(drop)
    }

    fn moved_by_adam(
        &self,
        _adam: Adam,
        _rate: Number<'_, f32, Virtual>,
        gradient: &Matrix<Virtual>,
        old: &Parameter<Virtual>,
        new: [&mut Matrix<Virtual>; 3],
    ) -> Result<()> {
        shapes::parameter(gradient, old)?;
        new.iter().try_for_each(|new| shapes::same(gradient, new).map(drop))
    }
}
