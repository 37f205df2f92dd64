//! Fits one weight per sample by gradient descent: on the first GPU, or on the host if there is none.

use gpucache::cudarc::driver::{CudaFunction, LaunchConfig};
use gpucache::cudarc::nvrtc::compile_ptx;
use gpucache::{Result, prelude::*};

const SAMPLES: usize = 1 << 16;
const STEPS: usize = 100;
const RATE: f32 = 0.1;

/// The one operation of this program: `a * b * scale + c` as a new array.
trait Compute {
    type Device: Device;
    fn multiply_add(&self, a: &Values<Self>, b: &Values<Self>, scale: f32, c: &Values<Self>) -> Result<Values<Self>>;
}
type Values<C> = Array<f32, <C as Compute>::Device>;

/// One training step. Every array that it allocates comes from the cache of the scope `train_step`.
#[cache_scope(train_step)]
fn step<C: Compute>(compute: &C, weights: &mut Values<C>, x: &Values<C>, minus_y: &Values<C>) -> Result<()> {
    let errors = compute.multiply_add(weights, x, 1.0, minus_y)?;
    *weights = compute.multiply_add(&errors, x, -RATE, weights)?; // drops the old weights
    Ok(()) // drops `errors`; the new weights outlive the step
}

fn train<C: Compute>(compute: &C, device: &C::Device) -> Result<()> {
    let values: Vec<f32> = (0..SAMPLES).map(|i| 1.0 + (i % 5) as f32 * 0.1).collect();
    let x = Array::from_slice(device, SAMPLES, &values)?;
    let minus_y = Array::from_slice(device, SAMPLES, &values.iter().map(|x| -3.0 * x).collect::<Vec<_>>())?;
    let mut weights = device.zeros(SAMPLES)?;
    for _ in 0..STEPS {
        step(compute, &mut weights, &x, &minus_y)?;
    }
    println!("weights: {:.3?}", &weights.to_vec()?[..4]);
    println!("{:#}", gpucache::stats("train_step").unwrap_or_default());
    invalidate("train_step"); // the scope gives up its plan and its idle memory
    Ok(())
}

impl Compute for Host {
    type Device = Host;

    fn multiply_add(&self, a: &Values<Self>, b: &Values<Self>, scale: f32, c: &Values<Self>) -> Result<Values<Self>> {
        let mut out = self.zeros(a.shape())?;
        (0..a.len()).for_each(|i| out[i] = a[i] * b[i] * scale + c[i]);
        Ok(out)
    }
}

struct Gpu {
    device: Cuda,
    kernel: CudaFunction,
}

const KERNEL: &str = r#"
extern "C" __global__ void multiply_add(float *out, const float *a, const float *b, float scale, const float *c, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] * b[i] * scale + c[i];
}"#;

impl Compute for Gpu {
    type Device = Cuda;

    #[allow(unsafe_code)]
    fn multiply_add(&self, a: &Values<Self>, b: &Values<Self>, scale: f32, c: &Values<Self>) -> Result<Values<Self>> {
        let (n, launch) = (a.len(), LaunchConfig::for_num_elems(a.len() as u32));
        // SAFETY: the kernel writes all `n` elements of `out`, and reads `n` elements of arrays that have as many.
        unsafe {
            let mut out = Array::uninit(&self.device, a.shape())?;
            let mut builder = self.device.launch_builder(&self.kernel);
            builder.arg(&mut out).arg(a).arg(b).arg(&scale).arg(c).arg(&n).launch(launch)?;
            Ok(out)
        }
    }
}

fn main() -> Result<()> {
    match Cuda::new(0) {
        Ok(device) => {
            let module = device.stream().context().load_module(compile_ptx(KERNEL)?)?;
            let gpu = Gpu { kernel: module.load_function("multiply_add")?, device: device.clone() };
            train(&gpu, &device)
        }
        Err(error) if error.is_unavailable() => {
            eprintln!("{error}; using the host"); // no GPU, or no driver
            train(&Host::new(), &Host::new())
        }
        Err(error) => Err(error),
    }
}
