//! Captures a step into a CUDA graph, and launches it with new input. Needs a GPU and NVRTC.

use gpucache::cudarc::driver::{CudaFunction, LaunchConfig};
use gpucache::cudarc::nvrtc::compile_ptx;
use gpucache::{Result, prelude::*};

const LEN: usize = 1000;
const KERNEL: &str = r#"
extern "C" __global__ void add(float *y, const float *x, float value, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + value;
}"#;

/// A step of 100 kernels, each with an output of its own. Write into `input`; do not assign a new array.
#[cache_scope(step)]
fn step(add: &CudaFunction, input: &Array<f32, Cuda>) -> Result<Array<f32, Cuda>> {
    let mut x = plus_one(add, input)?;
    for _ in 1..100 {
        x = plus_one(add, &x)?;
    }
    Ok(x)
}

#[allow(unsafe_code)]
fn plus_one(add: &CudaFunction, x: &Array<f32, Cuda>) -> Result<Array<f32, Cuda>> {
    let launch = LaunchConfig::for_num_elems(LEN as u32);
    // SAFETY: the kernel writes all elements of `y`, and reads as many of `x`.
    unsafe {
        let mut y = Array::uninit(x.device(), LEN)?;
        x.device().launch_builder(add).arg(&mut y).arg(x).arg(&1.0f32).arg(&LEN).launch(launch)?;
        Ok(y)
    }
}

fn main() -> Result<()> {
    let context = Cuda::new(0)?.stream().context().clone();
    let gpu = Cuda::with_stream(context.new_stream()?)?; // the default stream cannot be captured
    let add = context.load_module(compile_ptx(KERNEL)?)?.load_function("add")?;
    let mut input = gpu.zeros::<f32>(LEN)?;

    let (graph, output) = gpu.capture(|| step(&add, &input))?; // records the kernels and runs none
    for value in [1.0f32, 2.0, 3.0] {
        input.copy_from_slice(&[value; LEN])?; // writes into the same array
        graph.launch()?; // one call for 100 kernels
        println!("{value} + 100 = {}", output.to_vec()?[0]);
    }
    Ok(())
}
