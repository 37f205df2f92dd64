//! The operations without arithmetic, on a device without memory: shapes are checked, and nothing is computed.

use gpucache::device::Virtual;

use crate::common::Result;
use crate::model::{Machine, Matrix, Tokens, dims, ensure, same};

/// Addresses in plenty: 64 TiB of them.
const CAPACITY: usize = 1 << 46;

#[derive(Debug)]
pub(crate) struct Uncomputed {
    device: Virtual,
}

impl Uncomputed {
    pub(crate) fn new() -> Self {
        Self { device: Virtual::new(CAPACITY) }
    }
}

impl Machine for Uncomputed {
    type Device = Virtual;

    fn device(&self) -> &Virtual {
        &self.device
    }

    fn name(&self) -> String {
        "virtual".to_owned()
    }

    fn embed(&self, tokens: &Tokens<Virtual>, table: &Matrix<Virtual>, out: &mut Matrix<Virtual>) -> Result<()> {
        ensure(dims(out)? == (tokens.len(), dims(table)?.1), "the embedding has a row for each token")
    }

    fn normalize(&self, x: &Matrix<Virtual>, out: &mut Matrix<Virtual>) -> Result<()> {
        same(x, out).map(drop)
    }

    fn multiply(&self, x: &Matrix<Virtual>, weights: &Matrix<Virtual>, out: &mut Matrix<Virtual>) -> Result<()> {
        let (_, columns) = same(x, out)?;
        ensure(dims(weights)? == (columns, columns), "weights are square, and as wide as a row")
    }

    fn activate(
        &self,
        product: &Matrix<Virtual>,
        x: &Matrix<Virtual>,
        state: &mut Matrix<Virtual>,
        out: &mut Matrix<Virtual>,
    ) -> Result<()> {
        ensure(same(product, x)? == same(x, out)?, "two matrices differ in shape")?;
        ensure(state.len() >= out.len(), "the state has a row for each row of the batch")
    }

    fn pick(&self, x: &Matrix<Virtual>, out: &mut Tokens<Virtual>) -> Result<()> {
        ensure(dims(x)?.0 == out.len(), "each row has a token")
    }
}
