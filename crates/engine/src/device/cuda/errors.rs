//! Converts errors of CUDA and its libraries to errors of this crate, so `?` converts them in functions that return this crate's errors.

use std::fmt::Display;

use cudarc::driver::{CudaContext, DriverError, sys::CUresult};

use super::driver;
use crate::base::error::Error;

/// Errors for things that a GPU or a driver cannot do: the code, the thing, and the remedy.
const UNAVAILABLE: [(CUresult, &str, &str); 13] = {
    use CUresult::*;
    const CHOOSE: &str = "choose one that `nvidia-smi` lists, counted from 0, or work on `Host::new()`";
    const COMPILE: &str = "compile it for this GPU, by a toolkit that is no newer than the driver";
    const NAME: &str = "check the name; declare a kernel with `extern \"C\"`, so that its name stays as it is written";
    const UPDATE: &str = "check whether the GPU and the driver support it; a newer driver may";
    const STUB: &str =
        "this libcuda serves only the linker: let the loader find the driver's own, or work on `Host::new()`";
    [
        (CUDA_ERROR_NO_DEVICE, "a GPU", CHOOSE),
        (CUDA_ERROR_INVALID_DEVICE, "the GPU", CHOOSE),
        (CUDA_ERROR_STUB_LIBRARY, "CUDA", STUB),
        (CUDA_ERROR_INVALID_IMAGE, "a module", COMPILE),
        (CUDA_ERROR_INVALID_PTX, "a module", COMPILE),
        (CUDA_ERROR_INVALID_SOURCE, "a module", COMPILE),
        (CUDA_ERROR_NO_BINARY_FOR_GPU, "a module", COMPILE),
        (CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "a module", COMPILE),
        (CUDA_ERROR_FILE_NOT_FOUND, "a module", "check the path of its file"),
        (CUDA_ERROR_NOT_FOUND, "a function or a variable of a module", NAME),
        (CUDA_ERROR_NOT_SUPPORTED, "a CUDA call", UPDATE),
        (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA", UPDATE),
        (CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "CUDA", UPDATE),
    ]
};

/// The remedies for errors whose cause is known: calls that were refused, and kernels that failed. A failed kernel destroys the context.
const REMEDIES: [(CUresult, &str); 12] = {
    use CUresult::*;
    const LOST: &str = "the CUDA context is lost, so every later call fails too: end this process, and look for the kernel with `compute-sanitizer`";
    const BROKEN: &str = "the CUDA context is lost, so every later call fails too: end this process, and see whether `nvidia-smi` shows faults of the GPU";
    [
        (CUDA_ERROR_INVALID_VALUE, "check the arguments of the call, and the sizes of a launch"),
        (CUDA_ERROR_INVALID_HANDLE, "check that all objects in the call belong to one context, and are alive"),
        (CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "launch with fewer threads in a block, or less shared memory"),
        (CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "launch with fewer blocks"),
        (CUDA_ERROR_ILLEGAL_ADDRESS, LOST),
        (CUDA_ERROR_MISALIGNED_ADDRESS, LOST),
        (CUDA_ERROR_INVALID_ADDRESS_SPACE, LOST),
        (CUDA_ERROR_INVALID_PC, LOST),
        (CUDA_ERROR_LAUNCH_FAILED, LOST),
        (CUDA_ERROR_ASSERT, LOST),
        (CUDA_ERROR_ECC_UNCORRECTABLE, BROKEN),
        (CUDA_ERROR_HARDWARE_STACK_ERROR, LOST),
    ]
};

/// Converts the driver's error of a cudarc call, so `?` accepts it.
///
/// The result is [`is_out_of_memory`](Error::is_out_of_memory), or [`is_unavailable`](Error::is_unavailable) if the GPU or the driver does
/// not support the call. Otherwise it is [`is_device_failure`](Error::is_device_failure).
///
/// ```no_run
/// use gpucache::prelude::*;
///
/// fn copied(gpu: &Cuda, array: &Array<f32, Cuda>) -> gpucache::Result<Array<f32, Cuda>> {
///     let mut copy = Array::zeros(gpu, array.shape())?; // an error of this crate
///     gpu.stream().memcpy_dtod(array, &mut copy)?; // an error of cudarc
///     Ok(copy)
/// }
/// ```
impl From<DriverError> for Error {
    fn from(error: DriverError) -> Error {
        match UNAVAILABLE.into_iter().find(|(code, ..)| *code == error.0) {
            Some((_, what, remedy)) => Error::unavailable(what, describe(error), remedy),
            None => failed("CUDA", "a call", error),
        }
    }
}

/// Converts an error of NVRTC, so `?` accepts it. If a kernel does not compile, the message contains the compiler's log.
///
/// The result is [`is_out_of_memory`](Error::is_out_of_memory) or [`is_unavailable`](Error::is_unavailable): the same source and options
/// will not compile later either.
///
/// ```no_run
/// use gpucache::{cudarc::nvrtc::compile_ptx, prelude::*};
///
/// # fn double(gpu: &Cuda) -> gpucache::Result<gpucache::cudarc::driver::CudaFunction> {
/// let module = compile_ptx("extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }")?;
/// Ok(gpu.stream().context().load_module(module)?.load_function("twice")?)
/// # }
/// ```
#[cfg(feature = "nvrtc")]
impl From<cudarc::nvrtc::CompileError> for Error {
    fn from(error: cudarc::nvrtc::CompileError) -> Error {
        use cudarc::nvrtc::{CompileError, sys::nvrtcResult};

        let (code, log) = match error {
            CompileError::CompileError { nvrtc, log, .. } => (nvrtc.0, log.to_string_lossy().trim().to_string()),
            CompileError::CreationError(nvrtc)
            | CompileError::GetLogError(nvrtc)
            | CompileError::GetPtxError(nvrtc)
            | CompileError::DestroyError(nvrtc) => (nvrtc.0, "no log".to_string()),
        };
        match code {
            nvrtcResult::NVRTC_ERROR_OUT_OF_MEMORY => Error::exhausted("NVRTC".into(), log),
            code => Error::unavailable(
                "a kernel's source",
                format_args!("{code:?}: {log}"),
                "correct it, or the options that it is compiled with",
            ),
        }
    }
}

/// Converts an error of cuBLAS, so `?` accepts it.
///
/// The result is [`is_out_of_memory`](Error::is_out_of_memory), or [`is_unavailable`](Error::is_unavailable) if the GPU or the library does
/// not support the call. Otherwise it is [`is_device_failure`](Error::is_device_failure).
///
/// ```no_run
/// use gpucache::{cudarc::cublas::CudaBlas, prelude::*};
///
/// # fn blas(gpu: &Cuda) -> gpucache::Result<CudaBlas> {
/// Ok(CudaBlas::new(gpu.stream().clone())?)
/// # }
/// ```
#[cfg(feature = "cublas")]
impl From<cudarc::cublas::result::CublasError> for Error {
    fn from(error: cudarc::cublas::result::CublasError) -> Error {
        use cudarc::cublas::sys::cublasStatus_t::*;

        let detail = format!("{:?}", error.0);
        match error.0 {
            CUBLAS_STATUS_ALLOC_FAILED => Error::exhausted("cuBLAS".into(), detail),
            CUBLAS_STATUS_NOT_INITIALIZED
            | CUBLAS_STATUS_ARCH_MISMATCH
            | CUBLAS_STATUS_NOT_SUPPORTED
            | CUBLAS_STATUS_LICENSE_ERROR => Error::unavailable(
                "cuBLAS",
                detail,
                "see whether the library is as new as the GPU and no newer than the driver",
            ),
            CUBLAS_STATUS_INVALID_VALUE => {
                Error::refused("cuBLAS", "a call", detail, "check its sizes, leading dimensions and arguments")
            }
            _ => Error::device_failure("cuBLAS", "a call", detail),
        }
    }
}

/// Converts an error of cudarc's NCCL, so `?` accepts it.
///
/// The result is [`is_device_failure`](Error::is_device_failure): the communicator of the call is lost, or the call's arguments are wrong.
///
/// ```no_run
/// use gpucache::{cudarc::nccl::{Comm, ReduceOp}, prelude::*};
///
/// fn summed(comm: &Comm, gradient: &mut Array<f32, Cuda>) -> gpucache::Result<()> {
///     comm.all_reduce_in_place(gradient, &ReduceOp::Sum)?;
///     Ok(())
/// }
/// ```
#[cfg(feature = "nccl")]
impl From<cudarc::nccl::result::NcclError> for Error {
    fn from(error: cudarc::nccl::result::NcclError) -> Error {
        use cudarc::nccl::sys::ncclResult_t::*;

        let detail = format!("{:?}", error.0);
        let remedy = match error.0 {
            ncclInvalidArgument | ncclInvalidUsage => {
                "check the lengths, the ranks and the devices; `NCCL_DEBUG=WARN` shows more"
            }
            _ => "see why a rank failed (`NCCL_DEBUG=WARN` shows more), and connect all ranks again",
        };
        Error::refused("NCCL", "a call", detail, remedy)
    }
}

/// The error for the driver's answer to an operation on the GPU of a context.
pub(super) fn failure(context: &CudaContext, operation: &'static str, error: DriverError) -> Error {
    failed(format_args!("cuda:{}", context.ordinal()), operation, error)
}

/// The error if GPU number `ordinal` has no context.
pub(super) fn without_context(ordinal: usize, error: DriverError) -> Error {
    const LOOK: &str = "see whether `nvidia-smi` works, and whether another process has the GPU to itself";
    let gpu = format_args!("cuda:{ordinal}");
    match UNAVAILABLE.into_iter().find(|(code, ..)| *code == error.0) {
        Some((.., remedy)) => Error::unavailable(gpu, describe(error), remedy),
        None if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY => failed(gpu, "making a context", error),
        None => Error::refused(gpu, "making a context", describe(error), LOOK),
    }
}

fn failed(device: impl Display, operation: &'static str, error: DriverError) -> Error {
    let detail = describe(error);
    if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        return Error::exhausted(format!("{operation} on {device}"), detail);
    }
    match REMEDIES.into_iter().find(|(code, _)| *code == error.0) {
        Some((_, remedy)) => Error::refused(device, operation, detail, remedy),
        None => Error::device_failure(device, operation, detail),
    }
}

/// The driver's name of an error, and its text.
pub(super) fn describe(error: DriverError) -> String {
    // A program can construct this error without a driver. cudarc would then panic for the name.
    if !driver::is_present() {
        return format!("{:?}", error.0);
    }
    let text = |words: Result<&std::ffi::CStr, DriverError>| {
        words.map_or_else(|_| "unknown".into(), |words| words.to_string_lossy().into_owned())
    };
    format!("{}: {}", text(error.error_name()), text(error.error_string()))
}
