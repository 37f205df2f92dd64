//! Matrix products on a GPU, by cuBLAS.
//!
//! The same numbers give the same bits on the same GPU. cuBLAS uses no atomics by default. It chooses its algorithm by the sizes, by
//! the alignment of the arrays, which is always 256 bytes, and by its workspace, which is always the
//! same.
#![allow(unsafe_code)]

use cudarc::cublas::sys::cublasOperation_t::{self, CUBLAS_OP_N, CUBLAS_OP_T};
use cudarc::cublas::sys::cublasSetWorkspace_v2;
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig, StridedBatchedConfig};
use gpucache::prelude::*;

use crate::common::Result;
use crate::gpt::compute::{Factor, Matrix, WORKSPACE_BYTES};
use crate::gpt::shapes::{self, Product};

/// cuBLAS on the stream of a device.
#[derive(Debug)]
pub(crate) struct Blas {
    handle: CudaBlas,
    /// `handle` uses it, so it is dropped after `handle`.
    _workspace: Array<u8, Cuda>,
}

impl Blas {
    /// # Errors
    /// If cuBLAS cannot be set up, or there is no memory for its workspace.
    pub(crate) fn new(device: &Cuda) -> Result<Self> {
        let handle = CudaBlas::new(device.stream().clone())?;
        let workspace = Array::zeros(device, WORKSPACE_BYTES)?;
        // SAFETY: the workspace has this many bytes, is aligned to 256, and lives as long as the handle. All work of the handle is on
        // the workspace's stream.
        unsafe { cublasSetWorkspace_v2(*handle.handle(), workspace.address() as *mut _, WORKSPACE_BYTES) }.result()?;
        Ok(Self { handle, _workspace: workspace })
    }

    /// `out = alpha · a · b + beta · out` for each of `batch` matrices, which are stored one below the other.
    ///
    /// cuBLAS stores matrices by column, so it sees a row-major matrix as its transpose. This function therefore computes `outᵀ = bᵀ · aᵀ`:
    /// b comes first, the sizes are those of `outᵀ`, and every leading dimension is the number of columns as stored.
    pub(crate) fn multiply(
        &self,
        batch: usize,
        (a, b): (Factor<'_, Cuda>, Factor<'_, Cuda>),
        (alpha, beta): (f32, f32),
        out: &mut Matrix<Cuda>,
    ) -> Result<()> {
        let Product { m, n, k } = shapes::product(batch, &a, &b, out)?;
        let gemm = GemmConfig {
            transa: operation(&b),
            transb: operation(&a),
            m: int(n)?,
            n: int(m)?,
            k: int(k)?,
            alpha,
            lda: int(shapes::dims(b.array())?.1)?,
            ldb: int(shapes::dims(a.array())?.1)?,
            beta,
            ldc: int(n)?,
        };
        let strided = StridedBatchedConfig {
            gemm,
            batch_size: int(batch)?,
            stride_a: (k * n) as i64,
            stride_b: (m * k) as i64,
            stride_c: (m * n) as i64,
        };
        // SAFETY: `product` has checked that all three tables consist of `batch` dense matrices, a of m×k, b of k×n and out of
        // m×n, and the config says so, see above. With `beta` 0 the old contents of `out` are not read.
        unsafe { self.handle.gemm_strided_batched(strided, b.array(), a.array(), out) }?;
        Ok(())
    }
}

fn operation(factor: &Factor<'_, Cuda>) -> cublasOperation_t {
    match factor {
        Factor::AsIs(_) => CUBLAS_OP_N,
        Factor::Transposed(_) => CUBLAS_OP_T,
    }
}

/// cuBLAS uses 32-bit sizes.
fn int(n: usize) -> Result<i32> {
    Ok(i32::try_from(n).map_err(|_| format!("{n} is more than cuBLAS can count"))?)
}
