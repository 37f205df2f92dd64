//! The arithmetic on a GPU: matrix products by cuBLAS, the rest by the kernels in `kernels.cu`.
//!
//! The launches are sound for two reasons. The argument lists match those of `kernels.cu` in order and in type. And the lengths that a
//! kernel gets are those of its arrays, which each operation checks.
#![allow(unsafe_code)]

use cudarc::cublas::sys::cublasOperation_t::CUBLAS_OP_N;
use cudarc::cublas::sys::cublasSetWorkspace_v2;
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig};
use cudarc::driver::{CudaFunction, LaunchConfig};
use cudarc::nvrtc::compile_ptx;
use gpucache::prelude::*;
use std::cell::{RefCell, RefMut};

use crate::common::{Result, library};
use crate::model::{Machine, Matrix, Tokens, dims, ensure, same};

const SOURCE: &str = include_str!("kernels.cu");
/// The threads of a block, which the kernels with one block for each row rely on.
const THREADS: u32 = 256;
/// The workspace of cuBLAS: as much as NVIDIA recommends for its largest GPUs.
const WORKSPACE_BYTES: usize = 32 << 20;

#[derive(Debug)]
pub(crate) struct CudaMachine {
    blas: CudaBlas,
    /// `blas` uses it, so it is dropped after `blas`.
    workspace: RefCell<Array<u8, Cuda>>,
    embed: CudaFunction,
    normalize: CudaFunction,
    activate: CudaFunction,
    pick: CudaFunction,
    device: Cuda,
    ordinal: usize,
}

impl CudaMachine {
    /// On a stream of its own, because the default stream cannot be captured.
    ///
    /// # Errors
    /// If the driver, the GPU, cuBLAS or NVRTC is missing.
    pub(crate) fn new(ordinal: usize) -> Result<Self> {
        let context = Cuda::new(ordinal)?.stream().context().clone();
        let device = Cuda::with_stream(context.new_stream()?)?;
        // SAFETY: the probes only try to load the libraries, whose initializers are safe to run.
        unsafe {
            library("NVRTC", cudarc::nvrtc::sys::is_culib_present())?;
            library("cuBLAS", cudarc::cublas::sys::is_culib_present())?;
        }
        let module = context.load_module(compile_ptx(SOURCE)?)?;
        let blas = CudaBlas::new(device.stream().clone())?;
        let workspace = Array::zeros(&device, WORKSPACE_BYTES)?;
        // SAFETY: the workspace has this many bytes, is aligned to 256, and lives as long as the handle. All work of the handle is on
        // the workspace's stream.
        unsafe { cublasSetWorkspace_v2(*blas.handle(), workspace.address() as *mut _, WORKSPACE_BYTES) }.result()?;
        Ok(Self {
            blas,
            workspace: RefCell::new(workspace),
            embed: module.load_function("embed")?,
            normalize: module.load_function("normalize")?,
            activate: module.load_function("activate")?,
            pick: module.load_function("pick")?,
            device,
            ordinal,
        })
    }
}

impl Machine for CudaMachine {
    type Device = Cuda;

    fn device(&self) -> &Cuda {
        &self.device
    }

    fn name(&self) -> String {
        format!("cuda:{}", self.ordinal)
    }

    fn workspace(&self) -> Option<RefMut<'_, Array<u8, Cuda>>> {
        Some(self.workspace.borrow_mut())
    }

    fn free_bytes(&self) -> Option<u64> {
        self.device.stream().context().bind_to_thread().ok()?;
        let (free, _) = cudarc::driver::result::mem_get_info().ok()?;
        Some(free as u64)
    }

    fn embed(&self, tokens: &Tokens<Cuda>, table: &Matrix<Cuda>, out: &mut Matrix<Cuda>) -> Result<()> {
        let (table_rows, columns) = dims(table)?;
        ensure(dims(out)? == (tokens.len(), columns), "the embedding has a row for each token")?;
        let (table_rows, columns, count) = (int(table_rows)?, int(columns)?, int(out.len())?);
        let mut launch = self.device.launch_builder(&self.embed);
        launch.arg(out).arg(tokens).arg(table).arg(&table_rows).arg(&columns).arg(&count);
        // SAFETY: `count` is the length of `out`, which has a row for each token; the kernel checks the row of the table.
        Ok(unsafe { launch.launch(one_thread_each(count)) }?)
    }

    fn normalize(&self, x: &Matrix<Cuda>, out: &mut Matrix<Cuda>) -> Result<()> {
        let (rows, columns) = same(x, out)?;
        let (rows, columns) = (int(rows)?, int(columns)?);
        let mut launch = self.device.launch_builder(&self.normalize);
        launch.arg(out).arg(x).arg(&columns);
        // SAFETY: both are `rows` × `columns`, and there is a block of 256 threads for each row.
        Ok(unsafe { launch.launch(one_block_each(rows)) }?)
    }

    /// cuBLAS reads column by column: to it, a row-major matrix is its transpose. So it is asked for `outᵀ = weightsᵀ · xᵀ`.
    fn multiply(&self, x: &Matrix<Cuda>, weights: &Matrix<Cuda>, out: &mut Matrix<Cuda>) -> Result<()> {
        let (rows, columns) = same(x, out)?;
        ensure(dims(weights)? == (columns, columns), "weights are square, and as wide as a row")?;
        let (rows, columns) = (int(rows)?, int(columns)?);
        let config = GemmConfig {
            transa: CUBLAS_OP_N,
            transb: CUBLAS_OP_N,
            m: columns,
            n: rows,
            k: columns,
            alpha: 1.0,
            lda: columns,
            ldb: columns,
            beta: 0.0,
            ldc: columns,
        };
        // SAFETY: `x` and `out` are `rows` × `columns` and `weights` is `columns` × `columns`, all dense. With beta = 0 the old contents
        // of `out` are not read.
        unsafe { self.blas.gemm(config, weights, x, out) }?;
        Ok(())
    }

    fn activate(
        &self,
        product: &Matrix<Cuda>,
        x: &Matrix<Cuda>,
        state: &mut Matrix<Cuda>,
        out: &mut Matrix<Cuda>,
    ) -> Result<()> {
        ensure(same(product, x)? == same(x, out)?, "two matrices differ in shape")?;
        ensure(state.len() >= out.len(), "the state has a row for each row of the batch")?;
        let count = int(out.len())?;
        let mut launch = self.device.launch_builder(&self.activate);
        launch.arg(out).arg(state).arg(product).arg(x).arg(&count);
        // SAFETY: `count` is the length of all arrays, except that the state may be longer.
        Ok(unsafe { launch.launch(one_thread_each(count)) }?)
    }

    fn pick(&self, x: &Matrix<Cuda>, out: &mut Tokens<Cuda>) -> Result<()> {
        let (rows, columns) = dims(x)?;
        ensure(rows == out.len(), "each row has a token")?;
        let (rows, columns) = (int(rows)?, int(columns)?);
        let mut launch = self.device.launch_builder(&self.pick);
        launch.arg(out).arg(x).arg(&columns);
        // SAFETY: `x` is `rows` × `columns`, `out` has `rows` tokens, and there is a block of 256 threads for each row.
        Ok(unsafe { launch.launch(one_block_each(rows)) }?)
    }
}

/// cuBLAS and the kernels count in 32 bits.
fn int(n: usize) -> Result<i32> {
    Ok(i32::try_from(n).map_err(|_| format!("{n} is more than this program's kernels can count"))?)
}

fn one_thread_each(count: i32) -> LaunchConfig {
    let blocks = count.unsigned_abs().div_ceil(THREADS);
    LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 }
}

fn one_block_each(rows: i32) -> LaunchConfig {
    LaunchConfig { grid_dim: (rows.unsigned_abs(), 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 }
}
