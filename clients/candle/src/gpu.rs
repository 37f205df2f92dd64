//! candle's device, and weights on it.

use std::any::Any;
use std::ffi::c_void;
use std::sync::{Arc, PoisonError};

use anyhow::Result;
use candle_core::cuda_backend::cudarc::cublas::sys::cublasSetWorkspace_v2;
use candle_core::{DType, Device};
use candle_nn::{VarBuilder, VarMap};
use client_common::Common;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};

/// The size of cuBLAS's own workspace on Hopper, so that it chooses the same kernels with ours.
const WORKSPACE_BYTES: usize = 32 << 20;

/// The device as candle creates it: on the per-thread default stream.
pub(crate) fn device(common: Common) -> Result<Device> {
    let device = Device::new_cuda(0)?;
    device.set_seed(common.seed)?;
    Ok(device)
}

/// What captured work uses besides tensors. It must outlive all graphs.
pub(crate) struct Capturable {
    _workspace: CudaSlice<u8>,
    /// candle's guard, whose type has no public name.
    _parameters: Box<dyn Any>,
}

/// A device on whose stream work can be captured.
///
/// - candle's usual stream is the per-thread default stream. This one is a stream of its own.
/// - cudarc makes no events for its arrays: a captured stream cannot wait for an event from before the capture.
/// - cuBLAS gets a workspace. Otherwise it allocates one inside each capture.
/// - candle keeps shapes and strides, which are parameters of its kernels, on the device. Otherwise each kernel copies its own from
///   the host, and a graph would repeat the copy from memory that is gone.
pub(crate) fn capturable(common: Common) -> Result<(Device, Capturable)> {
    let device = Device::new_cuda_with_stream(0)?;
    let cuda = device.as_cuda_device()?;
    // SAFETY: only this program's thread uses the device, and all its work is on one stream.
    unsafe { cuda.disable_event_tracking() };
    let stream = cuda.cuda_stream();
    let workspace = cuda.alloc_zeros::<u8>(WORKSPACE_BYTES)?;
    let address = workspace.device_ptr(&stream).0 as *mut c_void;
    // SAFETY: the handle is alive, and `Capturable` keeps the workspace as long as work is launched.
    unsafe { cublasSetWorkspace_v2(*cuda.cublas_handle().handle(), address, WORKSPACE_BYTES) }.result()?;
    device.set_seed(common.seed)?;
    let parameters = cuda.enable_cuda_graph_htod_cache();
    Ok((device, Capturable { _workspace: workspace, _parameters: Box::new(parameters) }))
}

pub(crate) fn context(device: &Device) -> Result<Arc<CudaContext>> {
    Ok(stream(device)?.context().clone())
}

pub(crate) fn stream(device: &Device) -> Result<Arc<CudaStream>> {
    Ok(device.as_cuda_device()?.cuda_stream())
}

/// The weights that a model requested from this map by `weights`, in the form of weights from a file: tensors without a graph.
pub(crate) fn fixed(map: &VarMap, device: &Device) -> VarBuilder<'static> {
    let known = map.data().lock().unwrap_or_else(PoisonError::into_inner);
    let tensors = known.iter().map(|(name, variable)| (name.clone(), variable.as_detached_tensor()));
    VarBuilder::from_tensors(tensors.collect(), DType::F32, device)
}

/// Random weights, created when the model requests them, outside scopes.
pub(crate) fn weights(map: &VarMap, device: &Device) -> VarBuilder<'static> {
    VarBuilder::from_varmap(map, DType::F32, device)
}
