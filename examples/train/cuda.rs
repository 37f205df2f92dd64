//! The arithmetic on a GPU: matrix products by cuBLAS, the rest by the kernels in `kernels.cu`, which the driver's run-time
//! compiler builds at the start.
//!
//! All work goes to the one stream of the device, and nothing here waits. The launches are sound for two reasons. The argument lists below
//! match those of `kernels.cu` in order and in type: `float *` for a matrix, `unsigned int *` for an order, `int` for `i32`, `float`
//! for `f32`; for a number that may be on the device, a pointer and the number. And `shapes` has checked every length that a kernel gets.
#![allow(unsafe_code)]

use std::cell::{RefCell, RefMut};
use std::sync::Arc;

use cudarc::cublas::sys::cublasOperation_t::{CUBLAS_OP_N, CUBLAS_OP_T};
use cudarc::cublas::sys::cublasSetWorkspace_v2;
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig};
use cudarc::driver::{CudaFunction, CudaStream, DeviceRepr, LaunchConfig};
use cudarc::nvrtc::compile_ptx;
use gpucache::launch::Launch;
use gpucache::{Element, prelude::*};

use crate::common::{Result, library};
use crate::compute::{Adam, Compute, Factor, Matrix, Number, Parameter};
use crate::shapes;

/// As large as the workspace that cuBLAS makes by itself on a Hopper GPU, so that it chooses the same kernels.
const WORKSPACE_BYTES: usize = 32 << 20;
const SOURCE: &str = include_str!("kernels.cu");

/// A GPU with its kernels and its cuBLAS handle.
#[derive(Debug)]
pub(crate) struct CudaCompute {
    blas: CudaBlas,
    /// `blas` uses it, so it is dropped after `blas`.
    workspace: Option<RefCell<Array<u8, Cuda>>>,
    kernels: Kernels,
    device: Cuda,
    ordinal: usize,
}

#[derive(Debug)]
struct Kernels {
    gather: CudaFunction,
    add_bias: CudaFunction,
    relu: CudaFunction,
    relu_gradient: CudaFunction,
    softmax_cross_entropy: CudaFunction,
    sum_rows: CudaFunction,
    adam: CudaFunction,
    moved_by_adam: CudaFunction,
}

impl CudaCompute {
    /// On the default stream. If steps will be captured, on a stream of its own, and with a workspace for cuBLAS, which otherwise
    /// allocates one in each capture.
    ///
    /// # Errors
    /// If the driver, the GPU, cuBLAS or the run-time compiler is missing.
    pub(crate) fn new(ordinal: usize, graph: bool) -> Result<Self> {
        let mut device = Cuda::new(ordinal)?;
        if graph {
            device = Cuda::with_stream(device.stream().context().new_stream()?)?;
        }
        // SAFETY: the probes only try to load the libraries, whose initialisers are safe to run.
        unsafe {
            library("NVRTC", cudarc::nvrtc::sys::is_culib_present())?;
            library("cuBLAS", cudarc::cublas::sys::is_culib_present())?;
        }
        let kernels = Kernels::compile(device.stream())?;
        let blas = CudaBlas::new(device.stream().clone())?;
        let workspace = graph.then(|| workspace(&blas, &device)).transpose()?;
        let workspace = workspace.map(RefCell::new);
        Ok(Self { blas, workspace, kernels, device, ordinal })
    }
}

/// Gives cuBLAS a workspace, which must live as long as the handle.
fn workspace(blas: &CudaBlas, device: &Cuda) -> Result<Array<u8, Cuda>> {
    let workspace = Array::zeros(device, WORKSPACE_BYTES)?;
    // SAFETY: the workspace has this many bytes, is aligned to 256, and the caller keeps it as long as the handle. All work of the
    // handle is on the workspace's stream.
    unsafe { cublasSetWorkspace_v2(*blas.handle(), workspace.address() as *mut _, WORKSPACE_BYTES) }.result()?;
    Ok(workspace)
}

impl Kernels {
    fn compile(stream: &Arc<CudaStream>) -> Result<Self> {
        let module = stream.context().load_module(compile_ptx(SOURCE)?)?;
        Ok(Self {
            gather: module.load_function("gather")?,
            add_bias: module.load_function("add_bias")?,
            relu: module.load_function("relu")?,
            relu_gradient: module.load_function("relu_gradient")?,
            softmax_cross_entropy: module.load_function("softmax_cross_entropy")?,
            sum_rows: module.load_function("sum_rows")?,
            adam: module.load_function("adam")?,
            moved_by_adam: module.load_function("moved_by_adam")?,
        })
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

    fn workspace(&self) -> Option<RefMut<'_, Array<u8, Cuda>>> {
        self.workspace.as_ref().map(RefCell::borrow_mut)
    }

    /// cuBLAS reads column by column: to it, a row-major matrix is its transpose. So it is asked for `outᵀ = bᵀ · aᵀ`, with
    /// b first and the sizes of `outᵀ`, and every leading dimension is the number of columns as stored.
    fn matmul(&self, a: Factor<'_, Cuda>, b: Factor<'_, Cuda>, out: &mut Matrix<Cuda>) -> Result<()> {
        let (m, n, k) = shapes::product(&a, &b, out)?;
        let transposition = |factor: &Factor<'_, Cuda>| match factor {
            Factor::AsIs(_) => CUBLAS_OP_N,
            Factor::Transposed(_) => CUBLAS_OP_T,
        };
        let config = GemmConfig {
            transa: transposition(&b),
            transb: transposition(&a),
            m: int(n)?,
            n: int(m)?,
            k: int(k)?,
            alpha: 1.0,
            lda: int(shapes::dims(b.array())?.1)?,
            ldb: int(shapes::dims(a.array())?.1)?,
            beta: 0.0,
            ldc: int(n)?,
        };
        // SAFETY: `product` has checked that a is m×k, b is k×n and out m×n, all dense; the config says so, see above. With
        // beta = 0 the old contents of `out` are not read.
        unsafe { self.blas.gemm(config, b.array(), a.array(), out) }?;
        Ok(())
    }

    fn gather(
        &self,
        table: &Matrix<Cuda>,
        order: &Array<u32, Cuda>,
        start: Number<'_, u32, Cuda>,
        out: &mut Matrix<Cuda>,
    ) -> Result<()> {
        let (rows, columns) = shapes::gather(table, order, start.value, out)?;
        let (table_rows, order_len) = (int(shapes::dims(table)?.0)?, int(order.len())?);
        let (columns, count) = (int(columns)?, int(rows * columns)?);
        let mut launch = self.device.launch_builder(&self.kernels.gather);
        launch.arg(out).arg(table).arg(order);
        start.push(&mut launch);
        launch.arg(&order_len).arg(&table_rows).arg(&columns).arg(&count);
        // SAFETY: `count` is the length of `out`; the kernel checks the places in `order` and the rows it finds there.
        unsafe { launch.launch(one_thread_each(count)) }?;
        Ok(())
    }

    fn add_bias(&self, bias: &Matrix<Cuda>, x: &mut Matrix<Cuda>) -> Result<()> {
        let (rows, columns) = shapes::columns(x, bias)?;
        let (columns, count) = (int(columns)?, int(rows * columns)?);
        let mut launch = self.device.launch_builder(&self.kernels.add_bias);
        launch.arg(x).arg(bias).arg(&columns).arg(&count);
        // SAFETY: `count` is the length of `x`, and `bias` has `columns` numbers.
        unsafe { launch.launch(one_thread_each(count)) }?;
        Ok(())
    }

    fn relu(&self, x: &Matrix<Cuda>, out: &mut Matrix<Cuda>) -> Result<()> {
        let count = int(shapes::same(x, out)?)?;
        let mut launch = self.device.launch_builder(&self.kernels.relu);
        launch.arg(out).arg(x).arg(&count);
        // SAFETY: `count` is the length of both.
        unsafe { launch.launch(one_thread_each(count)) }?;
        Ok(())
    }

    fn relu_gradient(&self, output: &Matrix<Cuda>, gradient: &Matrix<Cuda>, out: &mut Matrix<Cuda>) -> Result<()> {
        shapes::same(output, gradient)?;
        let count = int(shapes::same(output, out)?)?;
        let mut launch = self.device.launch_builder(&self.kernels.relu_gradient);
        launch.arg(out).arg(output).arg(gradient).arg(&count);
        // SAFETY: `count` is the length of all three.
        unsafe { launch.launch(one_thread_each(count)) }?;
        Ok(())
    }

    fn softmax_cross_entropy(
        &self,
        logits: &Matrix<Cuda>,
        targets: &Matrix<Cuda>,
        start: Number<'_, u32, Cuda>,
        losses: &mut Matrix<Cuda>,
        gradient: &mut Matrix<Cuda>,
    ) -> Result<()> {
        let (rows, columns) = shapes::losses(logits, targets, start.value, losses, gradient)?;
        let (rows, columns, losses_len) = (int(rows)?, int(columns)?, int(losses.len())?);
        let mut launch = self.device.launch_builder(&self.kernels.softmax_cross_entropy);
        launch.arg(gradient).arg(losses).arg(logits).arg(targets);
        start.push(&mut launch);
        launch.arg(&losses_len).arg(&rows).arg(&columns);
        // SAFETY: logits, targets and gradient are `rows` × `columns`; the kernel checks the places in `losses`.
        unsafe { launch.launch(one_thread_each(rows)) }?;
        Ok(())
    }

    fn sum_rows(&self, x: &Matrix<Cuda>, out: &mut Matrix<Cuda>) -> Result<()> {
        let (rows, columns) = shapes::columns(x, out)?;
        let (rows, columns) = (int(rows)?, int(columns)?);
        let blocks = columns.unsigned_abs().div_ceil(32);
        let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (32, 8, 1), shared_mem_bytes: 0 };
        let mut launch = self.device.launch_builder(&self.kernels.sum_rows);
        launch.arg(out).arg(x).arg(&rows).arg(&columns);
        // SAFETY: `x` is `rows` × `columns` and `out` has `columns` numbers; the blocks have the size that the kernel needs.
        unsafe { launch.launch(config) }?;
        Ok(())
    }

    fn adam(
        &self,
        adam: Adam,
        rate: Number<'_, f32, Cuda>,
        gradient: &Matrix<Cuda>,
        parameter: &mut Parameter<Cuda>,
    ) -> Result<()> {
        let count = int(shapes::parameter(gradient, parameter)?)?;
        let Parameter { value, mean, square } = parameter;
        let mut launch = self.device.launch_builder(&self.kernels.adam);
        launch.arg(value).arg(mean).arg(square).arg(gradient);
        rate.push(&mut launch);
        launch.arg(&adam.mean_decay).arg(&adam.square_decay).arg(&adam.epsilon).arg(&count);
        // SAFETY: `count` is the length of all four.
        unsafe { launch.launch(one_thread_each(count)) }?;
        Ok(())
    }

    fn moved_by_adam(
        &self,
        adam: Adam,
        rate: Number<'_, f32, Cuda>,
        gradient: &Matrix<Cuda>,
        old: &Parameter<Cuda>,
        new: [&mut Matrix<Cuda>; 3],
    ) -> Result<()> {
        let count = int(shapes::parameter(gradient, old)?)?;
        let mut launch = self.device.launch_builder(&self.kernels.moved_by_adam);
        for new in new {
            shapes::same(gradient, new)?;
            launch.arg(new);
        }
        launch.arg(&old.value).arg(&old.mean).arg(&old.square).arg(gradient);
        rate.push(&mut launch);
        launch.arg(&adam.mean_decay).arg(&adam.square_decay).arg(&adam.epsilon).arg(&count);
        // SAFETY: `count` is the length of all seven; the new ones are borrowed mutably, and so are none of the others.
        unsafe { launch.launch(one_thread_each(count)) }?;
        Ok(())
    }
}

/// The null pointer, which says that a number is not on the device.
static NOWHERE: u64 = 0;

impl<'a, T: Element + DeviceRepr> Number<'a, T, Cuda> {
    /// Adds two arguments: the address of the number on the device, or a null pointer, and the host's number.
    fn push<'b>(&'b self, launch: &mut Launch<'b>) {
        match self.at {
            Some(array) => launch.arg(array),
            None => launch.arg(&NOWHERE),
        };
        launch.arg(&self.value);
    }
}

/// cuBLAS and the kernels count in 32 bits.
fn int(n: usize) -> Result<i32> {
    Ok(i32::try_from(n).map_err(|_| format!("{n} is more than this program's kernels can count"))?)
}

fn one_thread_each(count: i32) -> LaunchConfig {
    const THREADS: u32 = 256;
    let blocks = count.unsigned_abs().div_ceil(THREADS);
    LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 }
}
