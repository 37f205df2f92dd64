//! The GPU of the CUDA tests, where there is one: they take turns on it, since how many streams live is the context's
//! affair and so concerns all of them.

use std::sync::{Arc, MutexGuard};

use cudarc::driver::{CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::compile_ptx;
use gpucache::prelude::{Array, Cuda};

/// Long enough for the host to do what a test wants done meanwhile: about 60 ms.
pub const SLOWLY: i64 = 100_000_000;

const KERNELS: &str = r#"
__device__ void wait(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
}
extern "C" __global__ void add(unsigned *out, const unsigned *in, unsigned value, unsigned len, long long cycles) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    wait(cycles);
    if (i < len) out[i] = in[i] + value;
}
extern "C" __global__ void fill(unsigned *out, unsigned value, unsigned len, long long cycles) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    wait(cycles);
    if (i < len) out[i] = value;
}
"#;

/// GPU 0, for one test at a time.
pub struct Gpu {
    /// Its default stream.
    pub cuda: Cuda,
    _turn: MutexGuard<'static, ()>,
}

/// Two kernels, each of which can be told how many cycles to wait first.
pub struct Kernels {
    add: CudaFunction,
    fill: CudaFunction,
    _module: Arc<CudaModule>,
}

impl Gpu {
    /// The GPU, or a word on the error output that there is none.
    ///
    /// # Panics
    /// If there is one and it does not work.
    pub fn get() -> Option<Gpu> {
        let turn = crate::turn();
        match Cuda::new(0) {
            Ok(cuda) => {
                // Lets go of streams that earlier tests made.
                gpucache::trim(&cuda).expect("trimmed");
                Some(Gpu { cuda, _turn: turn })
            }
            Err(error) if error.is_unavailable() => {
                eprintln!("SKIPPED: {error}");
                None
            }
            Err(error) => panic!("there is a GPU, and it does not work: {error}"),
        }
    }

    /// The kernels, or a word on the error output that they cannot be compiled here.
    pub fn kernels(&self) -> Option<Kernels> {
        if !library_is_there("NVRTC") {
            return None;
        }
        let context = self.cuda.stream().context();
        let module = context.load_module(compile_ptx(KERNELS).expect("the kernels compile")).expect("they load");
        let load = |name| module.load_function(name).expect("they have these names");
        Some(Kernels { add: load("add"), fill: load("fill"), _module: module })
    }

    /// A stream of its own, with its handle.
    pub fn new_stream(&self) -> Cuda {
        let stream = self.cuda.stream().context().new_stream().expect("a stream");
        Cuda::with_stream(stream).expect("an ordinary stream")
    }
}

/// Whether one of CUDA's libraries can be loaded, by a name that says which: `NVRTC` or `cuBLAS`.
#[allow(unsafe_code)]
pub fn library_is_there(name: &str) -> bool {
    // SAFETY: both load a library, whose initialisers are made to be run by any process, and call nothing in it.
    let is_there = unsafe {
        match name {
            "NVRTC" => cudarc::nvrtc::sys::is_culib_present(),
            _ => cudarc::cublas::sys::is_culib_present(),
        }
    };
    if !is_there {
        eprintln!("SKIPPED: there is no {name} here");
    }
    is_there
}

impl Kernels {
    /// `out = input + value` on `stream`, after so many cycles.
    #[allow(unsafe_code)]
    pub fn add(
        &self,
        stream: &CudaStream,
        out: &mut Array<u32, Cuda>,
        input: &Array<u32, Cuda>,
        value: u32,
        cycles: i64,
    ) {
        assert_eq!(out.len(), input.len());
        let len = out.len() as u32;
        let mut launch = stream.launch_builder(&self.add);
        launch.arg(out).arg(input).arg(&value).arg(&len).arg(&cycles);
        // SAFETY: the arguments are those that the kernel declares, and it stays within `len` elements of both arrays.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }.expect("launched");
    }

    /// As [`add`](Kernels::add), by this crate's own builder.
    #[allow(unsafe_code)]
    pub fn add_on(&self, stream: &Cuda, out: &mut Array<u32, Cuda>, input: &Array<u32, Cuda>, value: u32, cycles: i64) {
        assert_eq!(out.len(), input.len());
        let len = out.len() as u32;
        let mut launch = stream.launch_builder(&self.add);
        launch.array_mut(out).array(input).arg(&value).arg(&len).arg(&cycles);
        // SAFETY: as in `add`.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }.expect("launched");
    }

    /// As [`add`](Kernels::add), from a bare address: only what was announced orders it.
    #[allow(unsafe_code)]
    pub fn add_at(&self, stream: &CudaStream, out: &mut Array<u32, Cuda>, input: u64, value: u32, cycles: i64) {
        let len = out.len() as u32;
        let mut launch = stream.launch_builder(&self.add);
        launch.arg(out).arg(&input).arg(&value).arg(&len).arg(&cycles);
        // SAFETY: as in `add`; the caller's address is that of an array as long.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }.expect("launched");
    }

    /// As [`fill`](Kernels::fill), by this crate's own builder.
    #[allow(unsafe_code)]
    pub fn fill_on(&self, stream: &Cuda, out: &mut Array<u32, Cuda>, value: u32, cycles: i64) {
        let len = out.len() as u32;
        let mut launch = stream.launch_builder(&self.fill);
        launch.array_mut(out).arg(&value).arg(&len).arg(&cycles);
        // SAFETY: as in `fill`.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }.expect("launched");
    }

    /// As [`fill`](Kernels::fill), for a slice of cudarc's.
    #[allow(unsafe_code)]
    pub fn fill_slice(&self, stream: &CudaStream, out: &mut CudaSlice<u32>, value: u32, cycles: i64) {
        let len = out.len() as u32;
        let mut launch = stream.launch_builder(&self.fill);
        launch.arg(out).arg(&value).arg(&len).arg(&cycles);
        // SAFETY: as in `fill`.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }.expect("launched");
    }

    /// `out = value` on `stream`, after so many cycles.
    #[allow(unsafe_code)]
    pub fn fill(&self, stream: &CudaStream, out: &mut Array<u32, Cuda>, value: u32, cycles: i64) {
        let len = out.len() as u32;
        let mut launch = stream.launch_builder(&self.fill);
        launch.arg(out).arg(&value).arg(&len).arg(&cycles);
        // SAFETY: the arguments are those that the kernel declares, and it stays within `len` elements of the array.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }.expect("launched");
    }
}

/// Where an array lies.
pub fn address(array: &Array<u32, Cuda>) -> u64 {
    array.device_ptr(array.device().stream()).0
}
