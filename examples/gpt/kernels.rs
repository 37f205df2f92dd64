//! The kernels of `kernels.cu`, compiled by NVRTC, and the number of threads for each kind of kernel.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig};
use cudarc::nvrtc::compile_ptx;

use crate::common::Result;

const SOURCE: &str = include_str!("kernels.cu");
/// `THREADS` in `kernels.cu`.
const THREADS: u32 = 256;

/// One field for each kernel, with its name.
#[derive(Debug)]
pub(crate) struct Kernels {
    pub(crate) uniform: CudaFunction,
    pub(crate) add: CudaFunction,
    pub(crate) add_bias: CudaFunction,
    pub(crate) sum_rows: CudaFunction,
    pub(crate) gelu: CudaFunction,
    pub(crate) gelu_gradient: CudaFunction,
    pub(crate) layer_norm: CudaFunction,
    pub(crate) layer_norm_gradient: CudaFunction,
    pub(crate) normalized_product: CudaFunction,
    pub(crate) split_heads: CudaFunction,
    pub(crate) merge_heads: CudaFunction,
    pub(crate) causal_softmax: CudaFunction,
    pub(crate) softmax_gradient: CudaFunction,
    pub(crate) embed: CudaFunction,
    pub(crate) embed_gradient: CudaFunction,
    pub(crate) cross_entropy: CudaFunction,
    pub(crate) adamw: CudaFunction,
    pub(crate) copy_part: CudaFunction,
}

impl Kernels {
    pub(crate) fn compile(stream: &Arc<CudaStream>) -> Result<Self> {
        let module = stream.context().load_module(compile_ptx(SOURCE)?)?;
        Ok(Self {
            uniform: module.load_function("uniform")?,
            add: module.load_function("add")?,
            add_bias: module.load_function("add_bias")?,
            sum_rows: module.load_function("sum_rows")?,
            gelu: module.load_function("gelu")?,
            gelu_gradient: module.load_function("gelu_gradient")?,
            layer_norm: module.load_function("layer_norm")?,
            layer_norm_gradient: module.load_function("layer_norm_gradient")?,
            normalized_product: module.load_function("normalized_product")?,
            split_heads: module.load_function("split_heads")?,
            merge_heads: module.load_function("merge_heads")?,
            causal_softmax: module.load_function("causal_softmax")?,
            softmax_gradient: module.load_function("softmax_gradient")?,
            embed: module.load_function("embed")?,
            embed_gradient: module.load_function("embed_gradient")?,
            cross_entropy: module.load_function("cross_entropy")?,
            adamw: module.load_function("adamw")?,
            copy_part: module.load_function("copy_part")?,
        })
    }
}

/// Checks that a grid can have this many blocks in its first dimension.
pub(crate) fn blocks(count: u64) -> Result<u32> {
    let fits = u32::try_from(count).ok().filter(|&count| count <= i32::MAX as u32);
    Ok(fits.ok_or_else(|| format!("{count} blocks are more than a launch can have"))?)
}

/// A thread for each of `count` numbers.
pub(crate) fn each_number(count: u64) -> Result<LaunchConfig> {
    let grid_dim = (blocks(count.div_ceil(THREADS.into()))?, 1, 1);
    Ok(LaunchConfig { grid_dim, block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 })
}

/// A block for each row.
pub(crate) fn each_row(rows: usize) -> Result<LaunchConfig> {
    Ok(LaunchConfig { grid_dim: (blocks(rows as u64)?, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 })
}
