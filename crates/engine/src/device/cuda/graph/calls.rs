//! The driver's functions for graphs. cudarc has some of them only for some versions of CUDA, so they are looked up here.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};

use cudarc::driver::{DriverError, sys};

use crate::device::cuda::driver::driver_calls;

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct KernelParams {
    pub(super) function: sys::CUfunction,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared_bytes: u32,
    /// The place of each argument.
    pub(super) arguments: *mut *mut c_void,
    /// Another way to pass arguments. Null if `arguments` has them.
    pub(super) extra: *mut *mut c_void,
    /// The kernel, if `function` is null.
    pub(super) kernel: *mut c_void,
    pub(super) context: sys::CUcontext,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct FillParams {
    pub(super) to: u64,
    pitch: usize,
    value: u32,
    element_bytes: u32,
    width: usize,
    height: usize,
}

/// `CUgraphExecUpdateResultInfo`, whose nodes are not looked at.
#[repr(C)]
#[derive(Default)]
pub(super) struct UpdateInfo {
    result: u32,
    node: usize,
    from: usize,
}

// The driver has all of them since CUDA 12.4.
driver_calls! {
    begin: cuStreamBeginCapture_v2(sys::CUstream, u32);
    end: cuStreamEndCapture(sys::CUstream, *mut sys::CUgraph);
    nodes: cuGraphGetNodes(sys::CUgraph, *mut sys::CUgraphNode, *mut usize);
    node_type: cuGraphNodeGetType(sys::CUgraphNode, *mut u32);
    kernel: cuGraphKernelNodeGetParams_v2(sys::CUgraphNode, *mut KernelParams);
    name: cuFuncGetName(*mut *const c_char, sys::CUfunction);
    argument: cuFuncGetParamInfo(sys::CUfunction, usize, *mut usize, *mut usize);
    copy: cuGraphMemcpyNodeGetParams(sys::CUgraphNode, *mut sys::CUDA_MEMCPY3D);
    fill: cuGraphMemsetNodeGetParams(sys::CUgraphNode, *mut FillParams);
    instantiate: cuGraphInstantiateWithFlags(*mut sys::CUgraphExec, sys::CUgraph, u64);
    upload: cuGraphUpload(sys::CUgraphExec, sys::CUstream);
    update: cuGraphExecUpdate_v2(sys::CUgraphExec, sys::CUgraph, *mut UpdateInfo);
    set_kernel: cuGraphExecKernelNodeSetParams_v2(sys::CUgraphExec, sys::CUgraphNode, *const KernelParams);
    set_copy: cuGraphExecMemcpyNodeSetParams(sys::CUgraphExec, sys::CUgraphNode, *const sys::CUDA_MEMCPY3D, sys::CUcontext);
    set_fill: cuGraphExecMemsetNodeSetParams(sys::CUgraphExec, sys::CUgraphNode, *const FillParams, sys::CUcontext);
    launch: cuGraphLaunch(sys::CUgraphExec, sys::CUstream);
    destroy_executable: cuGraphExecDestroy(sys::CUgraphExec);
    destroy: cuGraphDestroy(sys::CUgraph);
    trim: cuDeviceGraphMemTrim(sys::CUdevice);
}

/// The driver's answer as a result.
pub(super) fn answer(result: sys::CUresult) -> Result<(), DriverError> {
    result.result()
}
