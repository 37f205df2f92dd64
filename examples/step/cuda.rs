//! A layer on a GPU, and the release threshold of the driver's memory pool.
#![allow(unsafe_code)]

use cudarc::driver::result::{device::get_mem_pool, mem_pool};
use cudarc::driver::sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
use cudarc::driver::{CudaFunction, LaunchConfig};
use cudarc::nvrtc::compile_ptx;
use gpucache::prelude::*;

use crate::chain::{HandGraph, Machine, Mode, Values};
use crate::common::{Result, library};
use crate::hand_graph::CudarcGraph;

const SOURCE: &str = r#"
extern "C" __global__ void layer(float *y, const float *x, float a, float b, size_t count) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = a * x[i] + b;
}
"#;
const THREADS: u32 = 256;

/// A GPU with the kernel of a layer.
#[derive(Debug)]
pub(crate) struct CudaMachine {
    layer: CudaFunction,
    device: Cuda,
    ordinal: usize,
}

impl CudaMachine {
    /// On the default stream, or on a stream of its own, whose work can be captured.
    ///
    /// # Errors
    /// If the driver, the GPU or NVRTC is missing.
    pub(crate) fn new(ordinal: usize, graphs: bool) -> Result<Self> {
        let mut device = Cuda::new(ordinal)?;
        if graphs {
            device = Cuda::with_stream(device.stream().context().new_stream()?)?;
        }
        // SAFETY: the probe only tries to load the library, whose initializers are safe to run.
        library("NVRTC", unsafe { cudarc::nvrtc::sys::is_culib_present() })?;
        let module = device.stream().context().load_module(compile_ptx(SOURCE)?)?;
        Ok(Self { layer: module.load_function("layer")?, device, ordinal })
    }
}

impl Machine for CudaMachine {
    type Device = Cuda;

    const MODES: &'static [Mode] = &[Mode::Plain, Mode::Scoped, Mode::Hand, Mode::Pool];
    const GRAPH_MODES: &'static [Mode] = &[Mode::Plain, Mode::Scoped, Mode::Hand, Mode::Captured, Mode::HandGraph];

    fn device(&self) -> &Cuda {
        &self.device
    }

    fn name(&self) -> String {
        format!("cuda:{}", self.ordinal)
    }

    fn layer(&self, x: &Values<Cuda>, y: &mut Values<Cuda>) -> Result<()> {
        let (a, b, count) = (1.0f32, 1.0f32, x.len().min(y.len()));
        let config = configuration(count)?;
        let mut launch = self.device.launch_builder(&self.layer);
        launch.arg(y).arg(x).arg(&a).arg(&b).arg(&count);
        // SAFETY: the arguments are those of the kernel, in order and type (`size_t` is `usize` on the 64-bit systems that
        // CUDA runs on); `count` is within both arrays.
        unsafe { launch.launch(config) }?;
        Ok(())
    }

    /// By default the driver's pool frees its idle memory at every synchronization. For `Mode::Pool` it keeps everything.
    fn prepare(&self, mode: Mode) -> Result<()> {
        let mut threshold: u64 = if mode == Mode::Pool { u64::MAX } else { 0 };
        let context = self.device.stream().context();
        context.bind_to_thread()?;
        // SAFETY: the device belongs to a live context, the pool is its current one, and this attribute is a 64-bit integer.
        unsafe {
            let pool = get_mem_pool(context.cu_device())?;
            mem_pool::set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, (&raw mut threshold).cast())?;
        }
        Ok(())
    }

    fn hand_graph(&self, input: &Values<Cuda>, layers: usize) -> Result<Box<dyn HandGraph>> {
        Ok(Box::new(CudarcGraph::capture(self.device.stream(), &self.layer, input, layers)?))
    }
}

/// One thread for each element.
pub(crate) fn configuration(count: usize) -> Result<LaunchConfig> {
    let blocks = u32::try_from(count.div_ceil(THREADS as usize))?;
    Ok(LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 })
}
