//! The GPU of the CUDA tests: a real one, or else the made-up driver's. Tests take turns on it, since the number of live streams
//! belongs to the context and so concerns all of them.
//!
//! A test that finds no GPU, or lacks something else, prints SKIPPED and passes. If [`REQUIRED`] is set, such a test fails instead,
//! and nothing is made up.

use gpucache::device::Device as _;
use std::sync::{Arc, MutexGuard};

use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::{Ptx, compile_ptx};
use gpucache::launch::Launch;
use gpucache::prelude::{Array, Cuda};

/// Set to 1 on a machine with a GPU. A test that finds no GPU then fails.
pub const REQUIRED: &str = "GPUCACHE_REQUIRE_GPU";

/// Nanoseconds that are long enough for the host to do the rest of a test's work meanwhile.
pub const SLOWLY: u64 = 60_000_000;

/// `tests/driver` has the same kernels.
const KERNELS: &str = r#"
__device__ void wait(unsigned long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
}
extern "C" __global__ void hold(unsigned long long nanoseconds) {
    wait(nanoseconds);
}
extern "C" __global__ void fill(unsigned *out, unsigned value, unsigned len, unsigned long long nanoseconds) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    wait(nanoseconds);
    if (i < len) out[i] = value;
}
extern "C" __global__ void add(
    unsigned *out, const unsigned *in, unsigned value, unsigned len, unsigned long long nanoseconds
) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    wait(nanoseconds);
    if (i < len) out[i] = in[i] + value;
}
"#;

/// GPU 0, for one test at a time.
pub struct Gpu {
    /// Its default stream.
    pub cuda: Cuda,
    _turn: MutexGuard<'static, ()>,
}

/// Kernels over elements of four bytes. Each kernel first waits.
pub struct Kernels {
    /// Takes the address of the sums, the address of the inputs, the value, the number of elements, and nanoseconds.
    pub add: CudaFunction,
    /// Takes the address, the value, the number of elements, and nanoseconds.
    pub fill: CudaFunction,
    hold: CudaFunction,
    _module: Arc<CudaModule>,
}

/// Prints to stderr that a test does nothing, and why.
///
/// # Panics
/// If a GPU is required.
pub fn skip(why: impl std::fmt::Display) {
    assert!(!is_required(), "{REQUIRED} is set, and a test cannot run: {why}");
    eprintln!("SKIPPED: {why}");
}

fn is_required() -> bool {
    std::env::var(REQUIRED).is_ok_and(|value| value != "0")
}

/// Whether the process uses the made-up driver.
pub fn is_made_up() -> bool {
    #[cfg(target_os = "linux")]
    return crate::madeup::is_loaded();
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// GPU 0, or the made-up driver's if there is none, or `None` after a message.
///
/// # Panics
/// If there is a GPU that does not work, or if there is none and one is required.
pub fn device() -> Option<Cuda> {
    #[cfg(target_os = "linux")]
    if !is_required() {
        crate::madeup::load_unless_there_is_another();
    }
    match Cuda::new(0) {
        Ok(cuda) => Some(cuda),
        Err(error) if error.is_unavailable() => {
            skip(error);
            None
        }
        Err(error) => panic!("there is a GPU, and it does not work: {error}"),
    }
}

impl Gpu {
    /// The GPU, or `None` after a message on stderr.
    ///
    /// # Panics
    /// As [`device`].
    pub fn get() -> Option<Gpu> {
        let turn = crate::turn();
        let cuda = device()?;
        let_go_of_what_was_before(&cuda);
        Some(Gpu { cuda, _turn: turn })
    }

    /// The kernels, or `None` after a message on stderr that they cannot be compiled here.
    pub fn kernels(&self) -> Option<Kernels> {
        Kernels::load(self.cuda.stream().context())
    }

    /// A stream of its own, with its handle.
    pub fn new_stream(&self) -> Cuda {
        let stream = self.cuda.stream().context().new_stream().expect("a stream");
        Cuda::with_stream(stream).expect("an ordinary stream")
    }
}

/// Waits for the work of earlier tests, and releases their memory and streams. Threads that have ended may still be about to drop
/// theirs.
fn let_go_of_what_was_before(cuda: &Cuda) {
    let context = cuda.stream().context();
    for _ in 0..100 {
        context.synchronize().expect("no failure was kept");
        cuda.trim();
        if !context.is_in_multi_stream_mode() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Whether one of CUDA's libraries can be loaded. `name` is `NVRTC` or `cuBLAS`.
#[allow(unsafe_code)]
pub fn library_is_there(name: &str) -> bool {
    // SAFETY: both load a library, whose initialisers any process may run, and call nothing in it.
    let is_there = unsafe {
        match name {
            "NVRTC" => cudarc::nvrtc::sys::is_culib_present(),
            _ => cudarc::cublas::sys::is_culib_present(),
        }
    };
    if !is_there {
        skip(format_args!("there is no {name} here"));
    }
    is_there
}

impl Kernels {
    /// The kernels through a context object, or `None` after a message on stderr that they cannot be compiled here.
    pub fn load(context: &Arc<CudaContext>) -> Option<Kernels> {
        let code = match is_made_up() {
            // The made-up driver has the kernels, and reads no code.
            true => Ptx::from_src("made up"),
            false if library_is_there("NVRTC") => compile_ptx(KERNELS).expect("the kernels compile"),
            false => return None,
        };
        let module = context.load_module(code).expect("they load");
        let [add, fill, hold] =
            ["add", "fill", "hold"].map(|name| module.load_function(name).expect("they have these names"));
        Some(Kernels { add, fill, hold, _module: module })
    }

    /// Keeps a stream busy for this many microseconds.
    #[allow(unsafe_code)]
    pub fn hold(&self, stream: &CudaStream, microseconds: u64) {
        let nanoseconds = 1000 * microseconds;
        let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(&self.hold);
        launch.arg(&nanoseconds);
        // SAFETY: the kernel takes one number and touches no memory.
        unsafe { launch.launch(one) }.expect("launched");
    }

    /// `out = input + value` on `stream`, after this many nanoseconds.
    #[allow(unsafe_code)]
    pub fn add(
        &self,
        stream: &CudaStream,
        out: &mut Array<u32, Cuda>,
        input: &Array<u32, Cuda>,
        value: u32,
        nanoseconds: u64,
    ) {
        assert_eq!(out.len(), input.len());
        let len = out.len() as u32;
        let mut launch = stream.launch_builder(&self.add);
        launch.arg(out).arg(input).arg(&value).arg(&len).arg(&nanoseconds);
        // SAFETY: the arguments are those that the kernel declares, and it stays within `len` elements of both arrays.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }.expect("launched");
    }

    /// As [`add`](Kernels::add), into a slice of cudarc.
    #[allow(unsafe_code)]
    pub fn add_to_slice(
        &self,
        stream: &CudaStream,
        out: &mut CudaSlice<u32>,
        input: &Array<u32, Cuda>,
        value: u32,
        nanoseconds: u64,
    ) {
        assert_eq!(out.len(), input.len());
        let len = input.len() as u32;
        let mut launch = stream.launch_builder(&self.add);
        launch.arg(out).arg(input).arg(&value).arg(&len).arg(&nanoseconds);
        // SAFETY: as in `add`.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }.expect("launched");
    }

    /// As [`add`](Kernels::add), with this crate's own builder.
    #[allow(unsafe_code)]
    pub fn add_on(
        &self,
        stream: &Cuda,
        out: &mut Array<u32, Cuda>,
        input: &Array<u32, Cuda>,
        value: u32,
        nanoseconds: u64,
    ) {
        assert_eq!(out.len(), input.len());
        let len = out.len() as u32;
        let mut launch = stream.launch_builder(&self.add);
        launch.arg(out).arg(input).arg(&value).arg(&len).arg(&nanoseconds);
        // SAFETY: as in `add`.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }.expect("launched");
    }

    /// As [`add_on`](Kernels::add_on), without a wait and without a panic.
    ///
    /// # Errors
    /// A failure of the driver, or to order the arrays.
    #[allow(unsafe_code)]
    pub fn add_on_checked(
        &self,
        stream: &Cuda,
        out: &mut Array<u32, Cuda>,
        input: &Array<u32, Cuda>,
        value: u32,
    ) -> gpucache::Result<()> {
        assert_eq!(out.len(), input.len());
        let len = out.len() as u32;
        let mut launch = stream.launch_builder(&self.add);
        launch.arg(out).arg(input).arg(&value).arg(&len).arg(&0u64);
        // SAFETY: as in `add`.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }
    }

    /// As [`add`](Kernels::add), from a bare address. Only announced uses order it.
    #[allow(unsafe_code)]
    pub fn add_at(&self, stream: &CudaStream, out: &mut Array<u32, Cuda>, input: u64, value: u32, nanoseconds: u64) {
        let len = out.len() as u32;
        let mut launch = stream.launch_builder(&self.add);
        launch.arg(out).arg(&input).arg(&value).arg(&len).arg(&nanoseconds);
        // SAFETY: as in `add`; the caller's address is that of an array of the same length.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }.expect("launched");
    }

    /// A launch of `fill` by this crate's own builder, without its arguments.
    pub fn launch_fill<'a>(&'a self, stream: &'a Cuda) -> Launch<'a> {
        stream.launch_builder(&self.fill)
    }

    /// As [`fill`](Kernels::fill), with this crate's own builder.
    #[allow(unsafe_code)]
    pub fn fill_on(&self, stream: &Cuda, out: &mut Array<u32, Cuda>, value: u32, nanoseconds: u64) {
        let len = out.len() as u32;
        let mut launch = self.launch_fill(stream);
        launch.arg(out).arg(&value).arg(&len).arg(&nanoseconds);
        // SAFETY: as in `fill`.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }.expect("launched");
    }

    /// As [`fill`](Kernels::fill), for a slice of cudarc.
    #[allow(unsafe_code)]
    pub fn fill_slice(&self, stream: &CudaStream, out: &mut CudaSlice<u32>, value: u32, nanoseconds: u64) {
        let len = out.len() as u32;
        let mut launch = stream.launch_builder(&self.fill);
        launch.arg(out).arg(&value).arg(&len).arg(&nanoseconds);
        // SAFETY: as in `fill`.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }.expect("launched");
    }

    /// `out = value` on `stream`, after this many nanoseconds.
    #[allow(unsafe_code)]
    pub fn fill(&self, stream: &CudaStream, out: &mut Array<u32, Cuda>, value: u32, nanoseconds: u64) {
        let len = out.len() as u32;
        let mut launch = stream.launch_builder(&self.fill);
        launch.arg(out).arg(&value).arg(&len).arg(&nanoseconds);
        // SAFETY: the arguments are those that the kernel declares, and it stays within `len` elements of the array.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }.expect("launched");
    }
}

/// The address of an array.
pub fn address(array: &Array<u32, Cuda>) -> u64 {
    array.device_ptr(array.device().stream()).0
}
