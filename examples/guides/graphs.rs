//! A step of 100 kernels, which becomes one launch of a CUDA graph for each batch size. The first program of the guide to graphs.

use gpucache::cudarc::driver::{CudaFunction, LaunchConfig};
use gpucache::cudarc::nvrtc::compile_ptx;
use gpucache::graph::{CapturedScope, Scalar};
use gpucache::{Result, prelude::*};

const KERNEL: &str = r#"
extern "C" __global__ void add(float *y, const float *x, const float *value, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + *value;
}"#;

/// 100 kernels, each with an output of its own.
fn step(add: &CudaFunction, x: &Array<f32, Cuda>, value: &Array<f32, Cuda>) -> Result<Array<f32, Cuda>> {
    let mut y = plus(add, x, value)?;
    for _ in 1..100 {
        y = plus(add, &y, value)?;
    }
    Ok(y)
}

#[allow(unsafe_code)]
fn plus(add: &CudaFunction, x: &Array<f32, Cuda>, value: &Array<f32, Cuda>) -> Result<Array<f32, Cuda>> {
    let (gpu, len) = (x.device(), x.len());
    // SAFETY: the kernel writes all elements of `y`, reads as many of `x`, and one of `value`.
    unsafe {
        let mut y = Array::uninit(gpu, len)?;
        let config = LaunchConfig::for_num_elems(len as u32);
        gpu.launch_builder(add).arg(&mut y).arg(x).arg(value).arg(&len).launch(config)?;
        Ok(y)
    }
}

fn main() -> Result<()> {
    let context = Cuda::new(0)?.stream().context().clone();
    let gpu = Cuda::with_stream(context.new_stream()?)?; // the default stream cannot be captured
    let add = context.load_module(compile_ptx(KERNEL)?)?.load_function("add")?;

    let mut value = Scalar::new(&gpu, 0.0f32)?; // a number that changes from step to step
    let mut steps = CapturedScope::new(&gpu, "step");
    for number in 1..=40u16 {
        let len = if number % 2 == 0 { 1000 } else { 2000 }; // each batch size has a graph of its own
        let input = Array::full(&gpu, len, f32::from(number))?;
        value.set(f32::from(number % 4))?;
        let output = steps.run(len, (&input, &*value), |(input, value)| step(&add, input, value))?;
        if number > 37 {
            println!("{len} numbers: {number} + 100 x {} = {}", value.get(), output.to_vec()?[0]);
        }
    }
    println!("{} graphs, more than 20 launches: {}", steps.stats().graphs, steps.stats().launches > 20);
    Ok(())
}
