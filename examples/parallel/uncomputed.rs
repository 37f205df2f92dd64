//! The operations of the network without their arithmetic, on a device without memory: shapes are checked as on any machine, and nothing
//! is computed.
//!
//! An output that is not written breaks no promise here: there is nothing behind an address, and a read returns zeros.

use gpucache::device::Virtual;
use gpucache::prelude::*;

use crate::common::Result;
use crate::gpt::compute::{AdamW, Compute, Factor, Matrix, Part, WORKSPACE_BYTES};
use crate::gpt::shapes;

/// Addresses in plenty: 64 TiB of them.
const CAPACITY: usize = 1 << 46;

/// The unit in which gpucache maps memory of the host.
const HOST_PAGE: u64 = 64 << 10;

type Table = Matrix<Virtual>;
type Tokens = Array<u32, Virtual>;

/// A device that accepts every operation and does nothing.
#[derive(Debug)]
pub(crate) struct Uncomputed {
    device: Virtual,
    /// A GPU has it too.
    _workspace: Option<Array<u8, Virtual>>,
}

impl Uncomputed {
    /// As much memory as a GPU takes, with the workspace of its library.
    pub(crate) fn new() -> Result<Self> {
        let device = Virtual::new(CAPACITY);
        let workspace = Some(device.zeros(WORKSPACE_BYTES)?);
        Ok(Self { device, _workspace: workspace })
    }

    /// As much memory as the host takes, whose pages are smaller.
    pub(crate) fn as_host() -> Self {
        Self { device: Virtual::with_pages(CAPACITY, HOST_PAGE, true), _workspace: None }
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

    fn uniform(&self, _key: u64, _limit: f32, _out: &mut Table) -> Result<()> {
        Ok(())
    }

    fn clear(&self, _out: &mut Table) -> Result<()> {
        Ok(())
    }

    fn matmul(&self, a: Factor<'_, Virtual>, b: Factor<'_, Virtual>, _beta: f32, out: &mut Table) -> Result<()> {
        shapes::product(1, &a, &b, out).map(drop)
    }

    fn batched_matmul(
        &self,
        batch: usize,
        a: Factor<'_, Virtual>,
        b: Factor<'_, Virtual>,
        _scale: f32,
        out: &mut Table,
    ) -> Result<()> {
        shapes::product(batch, &a, &b, out).map(drop)
    }

    fn add(&self, x: &Table, sum: &mut Table) -> Result<()> {
        shapes::same(x, &[sum]).map(drop)
    }

    fn add_bias(&self, bias: &Table, x: &mut Table) -> Result<()> {
        shapes::columns(x, &[bias]).map(drop)
    }

    fn sum_rows(&self, x: &Table, out: &mut Table) -> Result<()> {
        shapes::folded(x, out).map(drop)
    }

    fn gelu(&self, x: &Table, out: &mut Table) -> Result<()> {
        shapes::same(x, &[out]).map(drop)
    }

    fn gelu_gradient(&self, x: &Table, gradient: &mut Table) -> Result<()> {
        shapes::same(x, &[gradient]).map(drop)
    }

    fn layer_norm(&self, x: &Table, gain: &Table, bias: &Table, out: &mut Table) -> Result<()> {
        shapes::same(x, &[out])?;
        shapes::columns(x, &[gain, bias]).map(drop)
    }

    fn layer_norm_gradient(&self, x: &Table, gain: &Table, gradient: &Table, sum: &mut Table) -> Result<()> {
        shapes::same(x, &[gradient, sum])?;
        shapes::columns(x, &[gain]).map(drop)
    }

    fn normalized_product(&self, x: &Table, gradient: &Table, out: &mut Table) -> Result<()> {
        shapes::same(x, &[gradient, out]).map(drop)
    }

    fn split_heads(&self, context: usize, x: &Table, out: &mut Table) -> Result<()> {
        shapes::heads(context, x, out).map(drop)
    }

    fn merge_heads(&self, context: usize, x: &Table, out: &mut Table) -> Result<()> {
        shapes::heads(context, out, x).map(drop)
    }

    fn causal_softmax(&self, scores: &mut Table) -> Result<()> {
        shapes::squares(scores).map(drop)
    }

    fn softmax_gradient(&self, probabilities: &Table, gradient: &mut Table) -> Result<()> {
        shapes::same(probabilities, &[gradient]).map(drop)
    }

    fn embed(&self, tokens: &Tokens, table: &Table, positions: &Table, out: &mut Table) -> Result<()> {
        shapes::embedding(tokens, positions, table, out).map(drop)
    }

    fn embed_gradient(&self, tokens: &Tokens, gradient: &Table, out: &mut Table) -> Result<()> {
        shapes::tokens_of(tokens, out, gradient).map(drop)
    }

    fn cross_entropy(
        &self,
        logits: &Table,
        targets: &Tokens,
        losses_out: &mut Table,
        gradient_out: &mut Table,
    ) -> Result<()> {
        shapes::losses(logits, targets, losses_out, gradient_out).map(drop)
    }

    fn adamw_part(&self, _numbers: AdamW, gradient: &Table, moved: [&mut Table; 3], part: Part) -> Result<()> {
        let [value, mean, square] = moved;
        shapes::update(part, gradient, [value, mean, square])
    }

    fn copy_part(&self, (from, at): (&Table, usize), (to, to_at): (&mut Table, usize), count: usize) -> Result<()> {
        shapes::within(from, at, count)?;
        shapes::within(to, to_at, count)
    }
}
