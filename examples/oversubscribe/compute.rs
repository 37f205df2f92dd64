//! What the network asks of a machine. The network and its training step are written once against [`Compute`]; `host.rs` and
//! `cuda.rs` do the arithmetic.

use gpucache::prelude::*;

use crate::common::Result;

/// A row-major table of numbers on a device. A vector is a table of one row.
pub(crate) type Matrix<D> = Array<f32, D>;

/// A factor of a matrix product, as it is stored or turned over.
pub(crate) enum Factor<'a, D: Device> {
    AsIs(&'a Matrix<D>),
    Transposed(&'a Matrix<D>),
}

/// The numbers of AdamW for one step (Loshchilov and Hutter 2019; the correction of the running means is folded into the rate).
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamW {
    /// Learning rate of this step, corrected for the start.
    pub(crate) rate: f32,
    /// The part of each weight that the step takes away.
    pub(crate) decay: f32,
    pub(crate) mean_decay: f32,
    pub(crate) square_decay: f32,
    pub(crate) epsilon: f32,
}

/// Added to the variance under the root of a layer norm.
pub(crate) const NORM_EPSILON: f32 = 1e-5;

/// A device and the operations on its arrays.
///
/// Every operation writes each element of its outputs (those named `out`), whatever stood there, unless it says that it adds to
/// them: outputs need not be cleared. Sums are added up in an order that the shapes alone decide, so that the same numbers give
/// the same bits on the same machine. Shapes that do not fit together are an error. Work may still be under way when a call
/// returns; later calls see its results.
pub(crate) trait Compute {
    type Device: Device;

    fn device(&self) -> &Self::Device;

    /// The device as it is named on the command line.
    fn name(&self) -> String;

    /// Fills with numbers drawn evenly from ±`limit`, each from `key` and its place alone: the same on every machine.
    fn uniform(&self, key: u64, limit: f32, out: &mut Matrix<Self::Device>) -> Result<()>;

    /// `out = a · b + beta · out`. With `beta` 0 the old contents are not read.
    fn matmul(
        &self,
        a: Factor<'_, Self::Device>,
        b: Factor<'_, Self::Device>,
        beta: f32,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// `out = scale · a · b` for each of `batch` matrices, which stand below each other in all three tables.
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

    /// `out`, one row, = the sum of the numbers of `x`, taken as rows as long as `out`: its own, or several that stand together.
    fn sum_rows(&self, x: &Matrix<Self::Device>, out: &mut Matrix<Self::Device>) -> Result<()>;

    /// GELU by its approximation with tanh (Hendrycks and Gimpel 2016).
    fn gelu(&self, x: &Matrix<Self::Device>, out: &mut Matrix<Self::Device>) -> Result<()>;

    /// `gradient *= gelu'(x)`: from behind the GELU to in front of it.
    fn gelu_gradient(&self, x: &Matrix<Self::Device>, gradient: &mut Matrix<Self::Device>) -> Result<()>;

    /// `out = normalized(x) * gain + bias`, where each row is normalized to mean 0 and variance 1.
    fn layer_norm(
        &self,
        x: &Matrix<Self::Device>,
        gain: &Matrix<Self::Device>,
        bias: &Matrix<Self::Device>,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// Adds the gradient at `x` to `sum`, from the `gradient` at the output of the layer norm.
    fn layer_norm_gradient(
        &self,
        x: &Matrix<Self::Device>,
        gain: &Matrix<Self::Device>,
        gradient: &Matrix<Self::Device>,
        sum: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// `out = normalized(x) * gradient`: the rows whose sum is the gradient of the gain.
    fn normalized_product(
        &self,
        x: &Matrix<Self::Device>,
        gradient: &Matrix<Self::Device>,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// From one row for each token, with the heads beside each other, to one table of `context` rows for each sequence and head,
    /// below each other.
    fn split_heads(&self, context: usize, x: &Matrix<Self::Device>, out: &mut Matrix<Self::Device>) -> Result<()>;

    /// The way back from [`Compute::split_heads`].
    fn merge_heads(&self, context: usize, x: &Matrix<Self::Device>, out: &mut Matrix<Self::Device>) -> Result<()>;

    /// The softmax of each row over the columns up to its own place in the sequence; zeros behind it. Square tables, as wide as
    /// the context, stand below each other.
    fn causal_softmax(&self, scores: &mut Matrix<Self::Device>) -> Result<()>;

    /// From the gradient at the probabilities to that at the scores.
    fn softmax_gradient(&self, probabilities: &Matrix<Self::Device>, gradient: &mut Matrix<Self::Device>)
    -> Result<()>;

    /// Row `i` of `out` = row `tokens[i]` of `table` + the part of `positions` (one row, a part for each place in the sequence)
    /// for place `i`, counted from anew in each sequence.
    fn embed(
        &self,
        tokens: &Array<u32, Self::Device>,
        table: &Matrix<Self::Device>,
        positions: &Matrix<Self::Device>,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// Row `v` of `out` = the sum of those rows of `gradient` whose token is `v`.
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

    /// Moves value, running mean of the gradient and running mean of its square, in place.
    fn adamw(
        &self,
        numbers: AdamW,
        gradient: &Matrix<Self::Device>,
        moved: [&mut Matrix<Self::Device>; 3],
    ) -> Result<()>;
}

/// A 64-bit number in which every bit of `x` has mixed (Steele, Lea and Flood 2014, as SplitMix64 ends).
pub(crate) fn mixed(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// What SplitMix64 counts in.
pub(crate) const COUNTED_IN: u64 = 0x9e37_79b9_7f4a_7c15;
