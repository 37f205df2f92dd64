//! The operations on a GPU: matrix products by cuBLAS, the others by the kernels in `kernels.cu`, which NVRTC compiles at
//! the start.
//!
//! All work is queued on the device's one stream, and nothing here waits. The launches are sound for two reasons. The
//! argument lists below are those of `kernels.cu`, in order and in type (`float *` for a matrix, `unsigned *` for tokens, `u64`
//! for `u64`, `float` for `f32`). And `shapes` has checked every length that a kernel gets.
//!
//! The same numbers give the same bits on the same GPU: the kernels use no atomics, and `blas.rs` explains why cuBLAS does the same.
#![allow(unsafe_code)]

use cudarc::driver::LaunchConfig;
use gpucache::prelude::*;

use crate::common::{Result, library};
use crate::gpt::blas::Blas;
use crate::gpt::compute::{AdamW, Compute, Factor, Matrix, Part};
use crate::gpt::kernels::{Kernels, blocks, each_number, each_row};
use crate::gpt::shapes::{self, Heads};

/// A GPU with its kernels and cuBLAS.
#[derive(Debug)]
pub(crate) struct CudaCompute {
    blas: Blas,
    kernels: Kernels,
    device: Cuda,
    ordinal: usize,
}

impl CudaCompute {
    /// # Errors
    /// If the driver, the GPU, cuBLAS or NVRTC is missing.
    pub(crate) fn new(ordinal: usize) -> Result<Self> {
        Self::on(Cuda::new(ordinal)?, ordinal)
    }

    /// On a stream of the GPU of this number.
    ///
    /// # Errors
    /// As for [`CudaCompute::new`].
    pub(crate) fn on(device: Cuda, ordinal: usize) -> Result<Self> {
        // SAFETY: the probes only try to load the libraries, whose initializers are safe to run.
        unsafe {
            library("NVRTC", cudarc::nvrtc::sys::is_culib_present())?;
            library("cuBLAS", cudarc::cublas::sys::is_culib_present())?;
        }
        let kernels = Kernels::compile(device.stream())?;
        let blas = Blas::new(&device)?;
        Ok(Self { blas, kernels, device, ordinal })
    }
}

impl Compute for CudaCompute {
    type Device = Cuda;

    fn device(&self) -> &Cuda {
        &self.device
    }

    fn name(&self) -> String {
        format!("cuda:{}", self.ordinal)
    }

    fn uniform(&self, key: u64, limit: f32, out: &mut Matrix<Cuda>) -> Result<()> {
        let count = out.len() as u64;
        let mut launch = self.device.launch_builder(&self.kernels.uniform);
        launch.arg(out).arg(&key).arg(&limit).arg(&count);
        // SAFETY: `count` is the length of `out`.
        unsafe { launch.launch(each_number(count)?) }?;
        Ok(())
    }

    fn clear(&self, out: &mut Matrix<Cuda>) -> Result<()> {
        Ok(self.device.stream().memset_zeros(out)?)
    }

    fn matmul(&self, a: Factor<'_, Cuda>, b: Factor<'_, Cuda>, beta: f32, out: &mut Matrix<Cuda>) -> Result<()> {
        self.blas.multiply(1, (a, b), (1.0, beta), out)
    }

    fn batched_matmul(
        &self,
        batch: usize,
        a: Factor<'_, Cuda>,
        b: Factor<'_, Cuda>,
        scale: f32,
        out: &mut Matrix<Cuda>,
    ) -> Result<()> {
        self.blas.multiply(batch, (a, b), (scale, 0.0), out)
    }

    fn add(&self, x: &Matrix<Cuda>, sum: &mut Matrix<Cuda>) -> Result<()> {
        shapes::same(x, &[sum])?;
        let count = x.len() as u64;
        let mut launch = self.device.launch_builder(&self.kernels.add);
        launch.arg(sum).arg(x).arg(&count);
        // SAFETY: `count` is the length of both.
        unsafe { launch.launch(each_number(count)?) }?;
        Ok(())
    }

    fn add_bias(&self, bias: &Matrix<Cuda>, x: &mut Matrix<Cuda>) -> Result<()> {
        let (_, columns) = shapes::columns(x, &[bias])?;
        let (columns, count) = (columns as u64, x.len() as u64);
        let mut launch = self.device.launch_builder(&self.kernels.add_bias);
        launch.arg(x).arg(bias).arg(&columns).arg(&count);
        // SAFETY: `count` is the length of `x`, and `bias` has `columns` numbers.
        unsafe { launch.launch(each_number(count)?) }?;
        Ok(())
    }

    fn sum_rows(&self, x: &Matrix<Cuda>, out: &mut Matrix<Cuda>) -> Result<()> {
        let (rows, columns) = shapes::folded(x, out)?;
        let (rows, columns) = (rows as u64, columns as u64);
        let grid_dim = (blocks(columns.div_ceil(32))?, 1, 1);
        let config = LaunchConfig { grid_dim, block_dim: (32, 8, 1), shared_mem_bytes: 0 };
        let mut launch = self.device.launch_builder(&self.kernels.sum_rows);
        launch.arg(out).arg(x).arg(&rows).arg(&columns);
        // SAFETY: `x` has `rows` × `columns` numbers and `out` has `columns`; the blocks have the size that the kernel needs.
        unsafe { launch.launch(config) }?;
        Ok(())
    }

    fn gelu(&self, x: &Matrix<Cuda>, out: &mut Matrix<Cuda>) -> Result<()> {
        shapes::same(x, &[out])?;
        let count = x.len() as u64;
        let mut launch = self.device.launch_builder(&self.kernels.gelu);
        launch.arg(out).arg(x).arg(&count);
        // SAFETY: `count` is the length of both.
        unsafe { launch.launch(each_number(count)?) }?;
        Ok(())
    }

    fn gelu_gradient(&self, x: &Matrix<Cuda>, gradient: &mut Matrix<Cuda>) -> Result<()> {
        shapes::same(x, &[gradient])?;
        let count = x.len() as u64;
        let mut launch = self.device.launch_builder(&self.kernels.gelu_gradient);
        launch.arg(gradient).arg(x).arg(&count);
        // SAFETY: `count` is the length of both.
        unsafe { launch.launch(each_number(count)?) }?;
        Ok(())
    }

    fn layer_norm(
        &self,
        x: &Matrix<Cuda>,
        gain: &Matrix<Cuda>,
        bias: &Matrix<Cuda>,
        out: &mut Matrix<Cuda>,
    ) -> Result<()> {
        shapes::same(x, &[out])?;
        let (rows, columns) = shapes::columns(x, &[gain, bias])?;
        let columns = columns as u64;
        let mut launch = self.device.launch_builder(&self.kernels.layer_norm);
        launch.arg(out).arg(x).arg(gain).arg(bias).arg(&columns);
        // SAFETY: `x` and `out` have a row of `columns` numbers for each block, and `gain` and `bias` have one.
        unsafe { launch.launch(each_row(rows)?) }?;
        Ok(())
    }

    fn layer_norm_gradient(
        &self,
        x: &Matrix<Cuda>,
        gain: &Matrix<Cuda>,
        gradient: &Matrix<Cuda>,
        sum: &mut Matrix<Cuda>,
    ) -> Result<()> {
        shapes::same(x, &[gradient, sum])?;
        let (rows, columns) = shapes::columns(x, &[gain])?;
        let columns = columns as u64;
        let mut launch = self.device.launch_builder(&self.kernels.layer_norm_gradient);
        launch.arg(sum).arg(x).arg(gain).arg(gradient).arg(&columns);
        // SAFETY: `x`, `gradient` and `sum` have a row of `columns` numbers for each block, and `gain` has one.
        unsafe { launch.launch(each_row(rows)?) }?;
        Ok(())
    }

    fn normalized_product(&self, x: &Matrix<Cuda>, gradient: &Matrix<Cuda>, out: &mut Matrix<Cuda>) -> Result<()> {
        let (rows, columns) = shapes::same(x, &[gradient, out])?;
        let columns = columns as u64;
        let mut launch = self.device.launch_builder(&self.kernels.normalized_product);
        launch.arg(out).arg(x).arg(gradient).arg(&columns);
        // SAFETY: all three have a row of `columns` numbers for each block.
        unsafe { launch.launch(each_row(rows)?) }?;
        Ok(())
    }

    fn split_heads(&self, context: usize, x: &Matrix<Cuda>, out: &mut Matrix<Cuda>) -> Result<()> {
        let Heads { context, heads, width } = shapes::heads(context, x, out)?;
        let (context, heads, width) = (context as u64, heads as u64, width as u64);
        let count = x.len() as u64;
        let mut launch = self.device.launch_builder(&self.kernels.split_heads);
        launch.arg(out).arg(x).arg(&context).arg(&heads).arg(&width).arg(&count);
        // SAFETY: `shapes::heads` has checked that both have `count` numbers, in rows of these sizes.
        unsafe { launch.launch(each_number(count)?) }?;
        Ok(())
    }

    fn merge_heads(&self, context: usize, x: &Matrix<Cuda>, out: &mut Matrix<Cuda>) -> Result<()> {
        let Heads { context, heads, width } = shapes::heads(context, out, x)?;
        let (context, heads, width) = (context as u64, heads as u64, width as u64);
        let count = x.len() as u64;
        let mut launch = self.device.launch_builder(&self.kernels.merge_heads);
        launch.arg(out).arg(x).arg(&context).arg(&heads).arg(&width).arg(&count);
        // SAFETY: `shapes::heads` has checked that both have `count` numbers, in rows of these sizes.
        unsafe { launch.launch(each_number(count)?) }?;
        Ok(())
    }

    fn causal_softmax(&self, scores: &mut Matrix<Cuda>) -> Result<()> {
        let (rows, columns) = shapes::squares(scores)?;
        let columns = columns as u64;
        let mut launch = self.device.launch_builder(&self.kernels.causal_softmax);
        launch.arg(scores).arg(&columns);
        // SAFETY: `scores` has a row of `columns` numbers for each block.
        unsafe { launch.launch(each_row(rows)?) }?;
        Ok(())
    }

    fn softmax_gradient(&self, probabilities: &Matrix<Cuda>, gradient: &mut Matrix<Cuda>) -> Result<()> {
        let (rows, columns) = shapes::same(probabilities, &[gradient])?;
        let columns = columns as u64;
        let mut launch = self.device.launch_builder(&self.kernels.softmax_gradient);
        launch.arg(gradient).arg(probabilities).arg(&columns);
        // SAFETY: both have a row of `columns` numbers for each block.
        unsafe { launch.launch(each_row(rows)?) }?;
        Ok(())
    }

    fn embed(
        &self,
        tokens: &Array<u32, Cuda>,
        table: &Matrix<Cuda>,
        positions: &Matrix<Cuda>,
        out: &mut Matrix<Cuda>,
    ) -> Result<()> {
        let (_, columns, context) = shapes::embedding(tokens, positions, table, out)?;
        let (vocabulary, context) = (shapes::dims(table)?.0 as u64, context as u64);
        let (columns, count) = (columns as u64, out.len() as u64);
        let mut launch = self.device.launch_builder(&self.kernels.embed);
        launch.arg(out).arg(tokens).arg(table).arg(positions).arg(&vocabulary).arg(&context).arg(&columns).arg(&count);
        // SAFETY: `out` has `count` numbers in rows of `columns`, with a token for each row. `positions` has `context` times
        // `columns` numbers. The kernel checks the row of the table.
        unsafe { launch.launch(each_number(count)?) }?;
        Ok(())
    }

    fn embed_gradient(&self, tokens: &Array<u32, Cuda>, gradient: &Matrix<Cuda>, out: &mut Matrix<Cuda>) -> Result<()> {
        let (rows, columns) = shapes::tokens_of(tokens, out, gradient)?;
        let (rows, columns, count) = (rows as u64, columns as u64, out.len() as u64);
        let mut launch = self.device.launch_builder(&self.kernels.embed_gradient);
        launch.arg(out).arg(tokens).arg(gradient).arg(&rows).arg(&columns).arg(&count);
        // SAFETY: `out` has `count` numbers, `gradient` has `rows` × `columns`, and each of its rows has a token.
        unsafe { launch.launch(each_number(count)?) }?;
        Ok(())
    }

    fn cross_entropy(
        &self,
        logits: &Matrix<Cuda>,
        targets: &Array<u32, Cuda>,
        losses_out: &mut Matrix<Cuda>,
        gradient_out: &mut Matrix<Cuda>,
    ) -> Result<()> {
        let (rows, columns) = shapes::losses(logits, targets, losses_out, gradient_out)?;
        let (share, columns) = (1.0 / rows as f32, columns as u64);
        let mut launch = self.device.launch_builder(&self.kernels.cross_entropy);
        launch.arg(losses_out).arg(gradient_out).arg(logits).arg(targets).arg(&share).arg(&columns);
        // SAFETY: logits and gradient have a row of `columns` numbers for each block, and each row has a target and a loss.
        unsafe { launch.launch(each_row(rows)?) }?;
        Ok(())
    }

    fn adamw_part(
        &self,
        numbers: AdamW,
        gradient: &Matrix<Cuda>,
        moved: [&mut Matrix<Cuda>; 3],
        part: Part,
    ) -> Result<()> {
        let [value, mean, square] = moved;
        shapes::update(part, gradient, [value, mean, square])?;
        let AdamW { rate, decay, mean_decay, square_decay, epsilon } = numbers;
        let places = [part.value, part.moments, part.gradient].map(|place| place as u64);
        let count = part.count as u64;
        let mut launch = self.device.launch_builder(&self.kernels.adamw);
        launch.arg(value).arg(mean).arg(square).arg(gradient);
        launch.arg(&rate).arg(&decay).arg(&mean_decay).arg(&square_decay).arg(&epsilon);
        launch.arg(&places[0]).arg(&places[1]).arg(&places[2]).arg(&count);
        // SAFETY: all four have `count` numbers from their places on, as `shapes::update` has checked.
        unsafe { launch.launch(each_number(count)?) }?;
        Ok(())
    }

    fn copy_part(
        &self,
        (from, at): (&Matrix<Cuda>, usize),
        (to, to_at): (&mut Matrix<Cuda>, usize),
        count: usize,
    ) -> Result<()> {
        shapes::within(from, at, count)?;
        shapes::within(to, to_at, count)?;
        let (at, to_at, count) = (at as u64, to_at as u64, count as u64);
        let mut launch = self.device.launch_builder(&self.kernels.copy_part);
        launch.arg(to).arg(&to_at).arg(from).arg(&at).arg(&count);
        // SAFETY: both have `count` numbers from their places on, as `shapes::within` has checked.
        unsafe { launch.launch(each_number(count)?) }?;
        Ok(())
    }
}
