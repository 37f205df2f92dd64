//! Two stages of a network on two devices, driven by one thread. Each batch goes through in parts, so both stages work at once. This runs
//! on two GPUs, on two streams of one GPU, or on two streams of the host: `cargo run --release --example stages`.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use gpucache::prelude::*;

const LEN: usize = 1 << 14;
const PARTS: usize = 8;
const BATCHES: usize = 10;
/// Work of a stage on one number.
const ROUNDS: u32 = 100;

/// One stage of a network, on a device.
trait Stage {
    type On: Device;

    fn device(&self) -> &Self::On;

    /// Queues the work of the stage on its device.
    fn queue(&self, input: &Array<f32, Self::On>) -> gpucache::Result<Array<f32, Self::On>>;
}

impl Stage for Host {
    type On = Host;

    fn device(&self) -> &Host {
        self
    }

    fn queue(&self, input: &Array<f32, Host>) -> gpucache::Result<Array<f32, Host>> {
        let mut output = Array::zeros(self, input.len())?;
        self.launch((&mut output, input), |(output, input): (&mut [f32], &[f32])| {
            output.iter_mut().zip(input).for_each(|(y, x)| *y = (0..ROUNDS).fold(*x, |y, _| y * 0.9 + 0.1));
        })?;
        Ok(output)
    }
}

/// All parts of a batch, through both stages. The thread only queues work: while the second stage has one part, the first one has the next.
#[cache_scope(batch)]
fn batch<S: Stage>([first, second]: &[S; 2], number: usize, is_in_turn: bool) -> gpucache::Result<f32> {
    let mut last = Array::<f32, _>::zeros(second.device(), LEN)?;
    for part in 0..PARTS {
        let input = Array::full(first.device(), LEN, (number + part) as f32)?;
        // `hidden` is copied behind the first stage, and the second one waits for the copy alone.
        let hidden = first.queue(&input)?.to_device(second.device())?;
        if is_in_turn {
            first.device().synchronize()?;
        }
        last.copy_from(&second.queue(&hidden)?)?;
        if is_in_turn {
            second.device().synchronize()?;
        }
    }
    Ok(last.to_vec()?[0])
}

fn timed<S: Stage>(stages: &[S; 2], is_in_turn: bool) -> gpucache::Result<(Duration, f32)> {
    let (start, mut last) = (Instant::now(), 0.0);
    for number in 0..BATCHES {
        last = batch(stages, number, is_in_turn)?;
    }
    Ok((start.elapsed(), last))
}

fn compare<S: Stage>(name: &str, stages: &[S; 2]) -> gpucache::Result<()> {
    timed(stages, false)?; // the first batches allocate
    let (in_turn, expected) = timed(stages, true)?;
    let (at_once, result) = timed(stages, false)?;
    assert_eq!(result, expected, "the order of the work is the same");
    println!("{name}: {in_turn:.1?} if the stages work in turn, {at_once:.1?} if both work at once");
    println!("{}", gpucache::stats("batch").unwrap_or_default());
    Ok(())
}

fn main() -> gpucache::Result<()> {
    #[cfg(feature = "cuda")]
    match gpu::stages() {
        Ok((name, stages)) => return compare(name, &stages),
        Err(error) => println!("not on a GPU: {error}"),
    }
    compare("two streams of the host", &[Host::new_stream()?, Host::new_stream()?])
}

#[cfg(feature = "cuda")]
mod gpu {
    use cudarc::driver::{CudaFunction, LaunchConfig};
    use cudarc::nvrtc::{compile_ptx, sys::is_culib_present};
    use gpucache::prelude::*;

    use super::{ROUNDS, Stage};

    const MIX: &str = r#"extern "C" __global__ void mix(float *y, const float *x, size_t n, unsigned rounds) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = x[i];
    for (unsigned round = 0; round < rounds; round++) value = value * 0.9f + 0.1f;
    y[i] = value;
}"#;

    pub(crate) struct OnGpu {
        gpu: Cuda,
        mix: CudaFunction,
    }

    /// A stage on each of two GPUs, or both on GPU 0.
    pub(crate) fn stages() -> Result<(&'static str, [OnGpu; 2]), Box<dyn std::error::Error>> {
        let first = Cuda::new(0)?;
        // SAFETY: this looks for a library, and calls none of its functions.
        if !unsafe { is_culib_present() } {
            return Err("NVRTC, which compiles the kernel, was not found".into());
        }
        Ok(match Cuda::new(1) {
            Ok(second) => ("two GPUs", [stage(&first)?, stage(&second)?]),
            Err(_) => ("two streams of one GPU", [stage(&first)?, stage(&first)?]),
        })
    }

    fn stage(gpu: &Cuda) -> gpucache::Result<OnGpu> {
        let context = gpu.stream().context();
        let mix = context.load_module(compile_ptx(MIX)?)?.load_function("mix")?;
        Ok(OnGpu { gpu: Cuda::with_stream(context.new_stream()?)?, mix })
    }

    impl Stage for OnGpu {
        type On = Cuda;

        fn device(&self) -> &Cuda {
            &self.gpu
        }

        fn queue(&self, input: &Array<f32, Cuda>) -> gpucache::Result<Array<f32, Cuda>> {
            let launch = LaunchConfig::for_num_elems(input.len() as u32);
            // SAFETY: the kernel writes every element of `output`, and reads as many of `input`.
            unsafe {
                let mut output = Array::uninit(&self.gpu, input.len())?;
                let mut mix = self.gpu.launch_builder(&self.mix);
                mix.arg(&mut output).arg(input).arg(&input.len()).arg(&ROUNDS).launch(launch)?;
                Ok(output)
            }
        }
    }
}
