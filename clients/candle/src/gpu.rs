//! candle's device, and weights on it.

use std::sync::{Arc, PoisonError};

use anyhow::Result;
use candle_core::{DType, Device};
use candle_nn::{VarBuilder, VarMap};
use client_common::Common;
use cudarc::driver::CudaContext;

/// The device as candle creates it: on the per-thread default stream.
pub(crate) fn device(common: Common) -> Result<Device> {
    let device = Device::new_cuda(0)?;
    device.set_seed(common.seed)?;
    Ok(device)
}

pub(crate) fn context(device: &Device) -> Result<Arc<CudaContext>> {
    Ok(device.as_cuda_device()?.cuda_stream().context().clone())
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
