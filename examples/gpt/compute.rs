//! The operations that the network needs from a machine. The network and its training step are written once for [`Compute`]; `host.rs`
//! and `cuda.rs` implement it.

use gpucache::prelude::*;

use crate::common::Result;
use crate::gpt::shapes;

/// A row-major table of numbers on a device. A vector is a table of one row.
pub(crate) type Matrix<D> = Array<f32, D>;

/// A factor of a matrix product, as it is stored or transposed.
pub(crate) enum Factor<'a, D: Device> {
    AsIs(&'a Matrix<D>),
    Transposed(&'a Matrix<D>),
}

/// The parameters of AdamW for one step (Loshchilov and Hutter 2019). The rate includes the correction of the running means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamW {
    /// Learning rate of this step, corrected for the first steps.
    pub(crate) rate: f32,
    /// The fraction of each weight that the step removes.
    pub(crate) decay: f32,
    pub(crate) mean_decay: f32,
    pub(crate) square_decay: f32,
    pub(crate) epsilon: f32,
}

/// Bytes of the arrays that operations on a GPU write beside their outputs: as many as NVIDIA recommends for cuBLAS on its largest GPUs.
pub(crate) const WORKSPACE_BYTES: usize = 32 << 20;

/// Added to the variance under the square root of a layer norm.
pub(crate) const NORM_EPSILON: f32 = 1e-5;

/// A device and the operations on its arrays.
///
/// Every operation overwrites each element of its outputs (those named `out`), unless its description says that it adds to
/// them. So outputs need not be cleared. The order of each sum depends only on the shapes, so the same numbers give
/// the same bits on the same machine. Shapes that do not fit together are an error. Work may still be running when a call
/// returns; later calls see its results.
pub(crate) trait Compute {
    type Device: Device;

    fn device(&self) -> &Self::Device;

    /// The device's name on the command line.
    fn name(&self) -> String;

    /// Fills `out` with random numbers, uniform in ±`limit`. Each depends only on `key` and its place, so all machines get the same.
    fn uniform(&self, key: u64, limit: f32, out: &mut Matrix<Self::Device>) -> Result<()>;

    /// Fills `out` with zeros.
    fn clear(&self, out: &mut Matrix<Self::Device>) -> Result<()>;

    /// `out = a · b + beta · out`. With `beta` 0 the old contents are not read.
    fn matmul(
        &self,
        a: Factor<'_, Self::Device>,
        b: Factor<'_, Self::Device>,
        beta: f32,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// `out = scale · a · b` for each of `batch` matrices, which are stored one below the other in all three tables.
    fn batched_matmul(
        &self,
        batch: usize,
        a: Factor<'_, Self::Device>,
        b: Factor<'_, Self::Device>,
        scale: f32,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// `sum += x`.
    fn add(&self, x: &Matrix<Self::Device>, sum: &mut Matrix<Self::Device>) -> Result<()>;

    /// `x += bias`, row by row.
    fn add_bias(&self, bias: &Matrix<Self::Device>, x: &mut Matrix<Self::Device>) -> Result<()>;

    /// Sums rows of `x` into `out`, one row. The numbers of `x` count as rows as long as `out`: single rows of `x`, or several joined ones.
    fn sum_rows(&self, x: &Matrix<Self::Device>, out: &mut Matrix<Self::Device>) -> Result<()>;

    /// GELU in its approximation with tanh (Hendrycks and Gimpel 2016).
    fn gelu(&self, x: &Matrix<Self::Device>, out: &mut Matrix<Self::Device>) -> Result<()>;

    /// `gradient *= gelu'(x)`: turns the gradient at the output of GELU into that at its input.
    fn gelu_gradient(&self, x: &Matrix<Self::Device>, gradient: &mut Matrix<Self::Device>) -> Result<()>;

    /// `out = normalized(x) * gain + bias`, where each row is normalized to mean 0 and variance 1.
    fn layer_norm(
        &self,
        x: &Matrix<Self::Device>,
        gain: &Matrix<Self::Device>,
        bias: &Matrix<Self::Device>,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// Adds the gradient at `x` to `sum`, computed from the `gradient` at the output of the layer norm.
    fn layer_norm_gradient(
        &self,
        x: &Matrix<Self::Device>,
        gain: &Matrix<Self::Device>,
        gradient: &Matrix<Self::Device>,
        sum: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// `out = normalized(x) * gradient`. The sum of its rows is the gradient of the gain.
    fn normalized_product(
        &self,
        x: &Matrix<Self::Device>,
        gradient: &Matrix<Self::Device>,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// Rearranges one row per token, with the heads side by side, into one table of `context` rows per sequence and head. The tables are
    /// stored one below the other.
    fn split_heads(&self, context: usize, x: &Matrix<Self::Device>, out: &mut Matrix<Self::Device>) -> Result<()>;

    /// The inverse of [`Compute::split_heads`].
    fn merge_heads(&self, context: usize, x: &Matrix<Self::Device>, out: &mut Matrix<Self::Device>) -> Result<()>;

    /// The softmax of each row over the columns up to its own place in the sequence; zeros after that. Square tables, as wide as
    /// the context, are stored one below the other.
    fn causal_softmax(&self, scores: &mut Matrix<Self::Device>) -> Result<()>;

    /// Turns the gradient at the probabilities into that at the scores.
    fn softmax_gradient(&self, probabilities: &Matrix<Self::Device>, gradient: &mut Matrix<Self::Device>)
    -> Result<()>;

    /// Row `i` of `out` = row `tokens[i]` of `table` + the part of `positions` for place `i`. `positions` is one row with a part for each
    /// place in a sequence. Places count from 0 in each sequence.
    fn embed(
        &self,
        tokens: &Array<u32, Self::Device>,
        table: &Matrix<Self::Device>,
        positions: &Matrix<Self::Device>,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// Row `v` of `out` = the sum of the rows of `gradient` whose token is `v`.
    fn embed_gradient(
        &self,
        tokens: &Array<u32, Self::Device>,
        gradient: &Matrix<Self::Device>,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// The cross-entropy of each row with its target, and the gradient of their mean at the logits.
    fn cross_entropy(
        &self,
        logits: &Matrix<Self::Device>,
        targets: &Array<u32, Self::Device>,
        losses_out: &mut Matrix<Self::Device>,
        gradient_out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// Updates value, running mean of the gradient and running mean of its square, in place.
    fn adamw(
        &self,
        numbers: AdamW,
        gradient: &Matrix<Self::Device>,
        moved: [&mut Matrix<Self::Device>; 3],
    ) -> Result<()> {
        let [value, mean, square] = moved;
        shapes::same(gradient, &[value, mean, square])?;
        let whole = Part { gradient: 0, value: 0, moments: 0, count: gradient.len() };
        self.adamw_part(numbers, gradient, [value, mean, square], whole)
    }

    /// The same for a part of each array, counted as one row of numbers.
    fn adamw_part(
        &self,
        numbers: AdamW,
        gradient: &Matrix<Self::Device>,
        moved: [&mut Matrix<Self::Device>; 3],
        part: Part,
    ) -> Result<()>;

    /// Copies `count` numbers of `from` to `to`, from and to these places of their rows of numbers. The other numbers of `to` stay.
    fn copy_part(
        &self,
        from: (&Matrix<Self::Device>, usize),
        to: (&mut Matrix<Self::Device>, usize),
        count: usize,
    ) -> Result<()>;
}

/// The part of each array of an update: where it begins, and how many numbers it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) gradient: usize,
    pub(crate) value: usize,
    /// In both running means.
    pub(crate) moments: usize,
    pub(crate) count: usize,
}

/// Mixes all bits of `x` (the last step of SplitMix64, Steele, Lea and Flood 2014).
pub(crate) fn mixed(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The increment of SplitMix64.
pub(crate) const COUNTED_IN: u64 = 0x9e37_79b9_7f4a_7c15;
