//! Work that keeps a stream busy for a while, and work on bare addresses.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaModule, CudaStream, LaunchConfig, PushKernelArg, result};
use cudarc::nvrtc::compile_ptx;
use gpucache_tests::gpu::{Gpu, library_is_there};

const KERNELS: &str = r#"
extern "C" __global__ void hold(unsigned long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
}
extern "C" __global__ void copy(unsigned *out, const unsigned *in, unsigned len) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < len) out[i] = in[i];
}
extern "C" __global__ void fill(unsigned *out, unsigned value, unsigned len) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < len) out[i] = value;
}
"#;

/// Kernels over elements of four bytes.
pub(crate) struct Slow {
    hold: CudaFunction,
    /// Takes the place to copy to, the place to copy from, and the number of elements.
    pub(crate) copy: CudaFunction,
    /// Takes the place to fill, the bits of the value, and the number of elements.
    pub(crate) fill: CudaFunction,
    _module: Arc<CudaModule>,
}

impl Slow {
    /// The kernels, or a word on the error output that they cannot be compiled here.
    pub(crate) fn get(gpu: &Gpu) -> Option<Slow> {
        if !library_is_there("NVRTC") {
            return None;
        }
        let module = gpu.cuda.stream().context().load_module(compile_ptx(KERNELS).unwrap()).unwrap();
        let [hold, copy, fill] = ["hold", "copy", "fill"].map(|name| module.load_function(name).unwrap());
        Some(Slow { hold, copy, fill, _module: module })
    }

    /// Keeps a stream busy for so many microseconds.
    pub(crate) fn hold(&self, stream: &CudaStream, microseconds: u64) {
        let nanoseconds = 1000 * microseconds;
        let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(&self.hold);
        launch.arg(&nanoseconds);
        // SAFETY: the kernel takes one number and touches no memory.
        unsafe { launch.launch(one) }.unwrap();
    }
}

/// Copies between bare addresses, on a stream that was told of them or is told by nobody.
///
/// # Safety
/// Both are places of `bytes` bytes on the stream's device, and stay so until the copy is done.
pub(crate) unsafe fn copy_at(stream: &CudaStream, to: u64, from: u64, bytes: usize) {
    stream.context().bind_to_thread().unwrap();
    // SAFETY: the caller's contract; the stream lives, and its context is current.
    unsafe { result::memcpy_dtod_async(to, from, bytes, stream.cu_stream()) }.unwrap();
}
