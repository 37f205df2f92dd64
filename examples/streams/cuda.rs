//! Streams of a GPU: this crate's builder launches kernels on a scope's arrays, and cudarc's builder on cudarc's slices.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::compile_ptx;
use gpucache::prelude::*;

use crate::common::{Result, library};
use crate::ring::{Machine, Size};

const SOURCE: &str = r#"
extern "C" __global__ void write(float *y, float value, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = value;
}
extern "C" __global__ void read(float *sum, const float *x, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) sum[i] += x[i];
}
"#;

/// A GPU with both kernels.
#[derive(Debug)]
pub(crate) struct CudaMachine {
    device: Cuda,
    write: CudaFunction,
    read: CudaFunction,
    ordinal: usize,
}

/// A stream of cudarc, and the sum of the arrays that it has read.
pub(crate) struct Plain {
    stream: Arc<CudaStream>,
    sum: CudaSlice<f32>,
}

impl CudaMachine {
    /// # Errors
    /// If the driver, the GPU or NVRTC is missing.
    pub(crate) fn new(ordinal: usize) -> Result<Self> {
        let device = Cuda::new(ordinal)?;
        // SAFETY: the probe only tries to load the library, whose initializers are safe to run.
        library("NVRTC", unsafe { cudarc::nvrtc::sys::is_culib_present() })?;
        let module = device.stream().context().load_module(compile_ptx(SOURCE)?)?;
        let (write, read) = (module.load_function("write")?, module.load_function("read")?);
        Ok(Self { device, write, read, ordinal })
    }
}

impl Machine for CudaMachine {
    type Device = Cuda;
    type Plain = Plain;

    fn name(&self) -> String {
        format!("cuda:{}", self.ordinal)
    }

    fn new_stream(&self) -> Result<Cuda> {
        Ok(Cuda::with_stream(self.device.stream().context().new_stream()?)?)
    }

    fn write(&self, stream: &Cuda, array: &mut Array<f32, Cuda>, value: f32) -> Result<()> {
        let count = u32::try_from(array.len())?;
        let mut launch = stream.launch_builder(&self.write);
        launch.arg(array).arg(&value).arg(&count);
        // SAFETY: the arguments are the kernel's, and the kernel stays within `count` elements.
        Ok(unsafe { launch.launch(LaunchConfig::for_num_elems(count)) }?)
    }

    fn read(&self, stream: &Cuda, sum: &mut Array<f32, Cuda>, array: &Array<f32, Cuda>) -> Result<()> {
        let count = u32::try_from(array.len())?;
        let mut launch = stream.launch_builder(&self.read);
        launch.arg(sum).arg(array).arg(&count);
        // SAFETY: the arguments are the kernel's, and the kernel stays within `count` elements of both arrays.
        Ok(unsafe { launch.launch(LaunchConfig::for_num_elems(count)) }?)
    }

    fn plain_streams(&self, size: Size) -> Result<Option<Vec<Plain>>> {
        let plain = |_| {
            let stream = self.device.stream().context().new_stream()?;
            let sum = stream.alloc_zeros(size.elements)?;
            Ok(Plain { stream, sum })
        };
        (0..size.streams).map(plain).collect::<Result<_>>().map(Some)
    }

    fn plain_sum(&self, streams: &[Plain]) -> Result<f32> {
        Ok(streams[0].stream.clone_dtoh(&streams[0].sum)?[0])
    }

    fn plain_step(&self, streams: &mut [Plain], size: Size) -> Result<()> {
        let (count, config) = (u32::try_from(size.elements)?, LaunchConfig::for_num_elems(size.elements as u32));
        let mut rows = Vec::with_capacity(size.streams);
        for Plain { stream, .. } in &*streams {
            let mut row = Vec::with_capacity(size.arrays);
            for number in 0..size.arrays {
                // SAFETY: the kernel writes every element before another one reads it.
                let mut slice = unsafe { stream.alloc::<f32>(size.elements)? };
                let value = number as f32;
                let mut launch = stream.launch_builder(&self.write);
                launch.arg(&mut slice).arg(&value).arg(&count);
                // SAFETY: the arguments are the kernel's, and the kernel stays within `count` elements.
                unsafe { launch.launch(config) }?;
                row.push(slice);
            }
            rows.push(row);
        }
        for (place, row) in rows.into_iter().enumerate() {
            let Plain { stream, sum } = &mut streams[(place + 1) % size.streams];
            for slice in row {
                let mut launch = stream.launch_builder(&self.read);
                launch.arg(&mut *sum).arg(&slice).arg(&count);
                // SAFETY: the arguments are the kernel's, and the kernel stays within `count` elements of both slices.
                unsafe { launch.launch(config) }?;
            }
        }
        Ok(streams.iter().try_for_each(|plain| plain.stream.synchronize())?)
    }
}
