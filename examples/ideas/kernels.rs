//! Arrays are arguments of kernel launches and of cudarc's calls: `cargo run --example kernels` (needs a GPU).
#![allow(unsafe_code)]

#[cfg(feature = "cuda")]
mod gpu {
    use cudarc::driver::{CudaFunction, LaunchConfig};
    use cudarc::nvrtc::{compile_ptx, sys::is_culib_present};
    use gpucache::{cudarc, prelude::*};

    const SQUARE: &str = r#"
extern "C" __global__ void square(float *y, const float *x, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];
}"#;

    #[cache_scope(forward)]
    fn forward(square: &CudaFunction, x: &Array<f32, Cuda>) -> Result<Array<f32, Cuda>, Box<dyn std::error::Error>> {
        // SAFETY: the kernel writes every element of `y`, on the stream of both arrays, and reads only within `x`.
        unsafe {
            let mut y = Array::uninit(x.device(), x.shape())?;
            let (n, launch) = (x.len(), LaunchConfig::for_num_elems(x.len() as u32));
            x.device().launch_builder(square).arg(&mut y).arg(x).arg(&n).launch(launch)?;
            Ok(y)
        }
    }

    pub(crate) fn run() -> Result<(), Box<dyn std::error::Error>> {
        let gpu = Cuda::new(0)?;
        // SAFETY: this looks for a library, and calls none of its functions.
        if !unsafe { is_culib_present() } {
            return Err("NVRTC, which compiles the kernel, was not found: install the CUDA toolkit".into());
        }
        let module = gpu.stream().context().load_module(compile_ptx(SQUARE)?)?;
        let square = module.load_function("square")?;
        let x = Array::from_slice(&gpu, 4, &[1.0f32, 2.0, 3.0, 4.0])?;
        for _ in 0..100 {
            forward(&square, &x)?;
        }
        println!("{:?} squared is {:?}", x.to_vec()?, forward(&square, &x)?.to_vec()?);
        println!("{}", gpucache::stats("forward").unwrap_or_default());
        Ok(())
    }
}

fn main() {
    #[cfg(feature = "cuda")]
    if let Err(error) = gpu::run() {
        println!("kernels cannot run here: {error}");
    }
    #[cfg(not(feature = "cuda"))]
    println!("kernels cannot run here: the program was built without the feature `cuda`");
}
