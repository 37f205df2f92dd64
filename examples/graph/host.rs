//! The arithmetic on a stream of the host, by kernels that a graph can repeat.

use gpucache::prelude::*;

use crate::common::Result;
use crate::model::{Machine, Matrix, Tokens, dims, ensure, same};

#[derive(Debug)]
pub(crate) struct HostMachine {
    stream: Host,
}

impl HostMachine {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { stream: Host::new_stream()? })
    }
}

impl Machine for HostMachine {
    type Device = Host;

    fn device(&self) -> &Host {
        &self.stream
    }

    fn name(&self) -> String {
        "host".to_owned()
    }

    fn embed(&self, tokens: &Tokens<Host>, table: &Matrix<Host>, out: &mut Matrix<Host>) -> Result<()> {
        let (rows, columns) = dims(out)?;
        ensure(rows == tokens.len() && columns == dims(table)?.1, "the embedding has a row for each token")?;
        Ok(self.stream.launch_kernel((tokens, table, out), move |(tokens, table, out)| {
            for (&token, out) in tokens.iter().zip(out.chunks_exact_mut(columns)) {
                match table.chunks_exact(columns).nth(token as usize) {
                    Some(row) => out.copy_from_slice(row),
                    None => out.fill(0.0),
                }
            }
        })?)
    }

    fn normalize(&self, x: &Matrix<Host>, out: &mut Matrix<Host>) -> Result<()> {
        let (_, columns) = same(x, out)?;
        Ok(self.stream.launch_kernel((x, out), move |(x, out)| {
            for (x, out) in x.chunks_exact(columns).zip(out.chunks_exact_mut(columns)) {
                let squares: f32 = x.iter().map(|x| x * x).sum();
                let scale = 1.0 / (squares / columns as f32 + 1e-6).sqrt();
                out.iter_mut().zip(x).for_each(|(out, x)| *out = scale * x);
            }
        })?)
    }

    fn multiply(&self, x: &Matrix<Host>, weights: &Matrix<Host>, out: &mut Matrix<Host>) -> Result<()> {
        let (_, columns) = same(x, out)?;
        ensure(dims(weights)? == (columns, columns), "weights are square, and as wide as a row")?;
        Ok(self.stream.launch_kernel((x, weights, out), move |(x, weights, out)| {
            for (x, out) in x.chunks_exact(columns).zip(out.chunks_exact_mut(columns)) {
                out.fill(0.0);
                for (x, weights) in x.iter().zip(weights.chunks_exact(columns)) {
                    out.iter_mut().zip(weights).for_each(|(out, weight)| *out += x * weight);
                }
            }
        })?)
    }

    fn activate(
        &self,
        product: &Matrix<Host>,
        x: &Matrix<Host>,
        state: &mut Matrix<Host>,
        out: &mut Matrix<Host>,
    ) -> Result<()> {
        ensure(same(product, x)? == same(x, out)?, "two matrices differ in shape")?;
        ensure(state.len() >= out.len(), "the state has a row for each row of the batch")?;
        Ok(self.stream.launch_kernel((product, x, state, out), |(product, x, state, out)| {
            for ((product, x), (state, out)) in product.iter().zip(x).zip(state.iter_mut().zip(out)) {
                *state = 0.5 * *state + gelu(*product);
                *out = x + *state;
            }
        })?)
    }

    fn pick(&self, x: &Matrix<Host>, out: &mut Tokens<Host>) -> Result<()> {
        let (rows, columns) = dims(x)?;
        ensure(rows == out.len(), "each row has a token")?;
        Ok(self.stream.launch_kernel((x, out), move |(x, out)| {
            for (x, out) in x.chunks_exact(columns).zip(out) {
                let largest = (0u32..).zip(x).max_by(|a, b| a.1.total_cmp(b.1));
                *out = largest.map_or(0, |(column, _)| column);
            }
        })?)
    }
}

/// The activation, as PyTorch approximates it by tanh.
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh())
}
