//! The chain as a graph that a program captures by itself, over three arrays of cudarc. It has an input of its own. If it used the address of the
//! array that all modes read, gpucache would order each use of that array with other code's work.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaFunction, CudaGraph, CudaSlice, CudaStream, DevicePtr, PushKernelArg};

use crate::chain::{HandGraph, Values};
use crate::common::Result;
use crate::cuda::configuration;
use gpucache::prelude::*;

pub(crate) struct CudarcGraph {
    // Dropped before the arrays whose addresses it contains.
    graph: CudaGraph,
    stream: Arc<CudaStream>,
    /// The input is the last one.
    buffers: [CudaSlice<f32>; 3],
    /// The buffer that the last layer writes.
    last: usize,
}

impl CudarcGraph {
    pub(crate) fn capture(
        stream: &Arc<CudaStream>,
        layer: &CudaFunction,
        input: &Values<Cuda>,
        layers: usize,
    ) -> Result<Self> {
        let count = input.len();
        let input = stream.clone_htod(&input.to_vec()?)?;
        let buffers = [stream.alloc_zeros::<f32>(count)?, stream.alloc_zeros::<f32>(count)?, input];
        let addresses = [0, 1, 2].map(|index: usize| buffers[index].device_ptr(stream).0);
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let mut x = addresses[2];
        stream.begin_capture(mode)?;
        let launched = (0..layers).try_for_each(|index| {
            let (y, a, b) = (addresses[index % 2], 1.0f32, 1.0f32);
            let mut launch = stream.launch_builder(layer);
            launch.arg(&y).arg(&x).arg(&a).arg(&b).arg(&count);
            // SAFETY: these are the arguments of the kernel, in order and type, where an address stands for a pointer. `count` is
            // the length of all three arrays.
            let launched = unsafe { launch.launch(configuration(count)?) };
            x = y;
            launched.map(drop).map_err(Into::into)
        });
        let graph = stream.end_capture(CUgraphInstantiate_flags(0));
        launched.and_then(|()| {
            let graph = graph?.ok_or("the capture recorded nothing")?;
            Ok(Self { graph, stream: stream.clone(), buffers, last: (layers - 1) % 2 })
        })
    }
}

impl HandGraph for CudarcGraph {
    fn launch(&self) -> Result<()> {
        Ok(self.graph.launch()?)
    }

    fn output(&self) -> Result<Vec<f32>> {
        Ok(self.stream.clone_dtoh(&self.buffers[self.last])?)
    }
}
