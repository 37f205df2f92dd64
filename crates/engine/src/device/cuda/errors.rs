//! Converts errors of CUDA and its libraries to errors of this crate, so `?` converts them in functions that return this crate's errors.

use cudarc::driver::{CudaContext, DriverError, sys::CUresult};

use super::driver;
use crate::base::error::Error;

/// Errors for things that a GPU or a driver cannot do: the code, the thing, and the remedy.
const UNAVAILABLE: [(CUresult, &str, &str); 12] = {
    use CUresult::*;
    const CHOOSE: &str = "choose one that `nvidia-smi` lists, counted from 0, or work on `Host::new()`";
    const COMPILE: &str = "compile it for this GPU, by a toolkit that is no newer than the driver";
    const NAME: &str = "check the name; declare a kernel with `extern \"C\"`, so that its name stays as it is written";
    const UPDATE: &str = "check whether the GPU and the driver support it; a newer driver may";
    [
        (CUDA_ERROR_NO_DEVICE, "a GPU", CHOOSE),
        (CUDA_ERROR_INVALID_DEVICE, "the GPU", CHOOSE),
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

/// Errors of refused calls that leave the context usable, with the remedy. Other errors may have destroyed the context.
const REFUSED: [(CUresult, &str); 4] = [
    (CUresult::CUDA_ERROR_INVALID_VALUE, "check the arguments of the call, and the sizes of a launch"),
    (CUresult::CUDA_ERROR_INVALID_HANDLE, "check that all objects in the call belong to one context, and are alive"),
    (CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "launch with fewer threads in a block, or less shared memory"),
    (CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "launch with fewer blocks"),
];

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
        let detail = describe(error);
        if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Error::exhausted("a CUDA call", detail);
        }
        if let Some((_, what, remedy)) = UNAVAILABLE.into_iter().find(|(code, ..)| *code == error.0) {
            return Error::unavailable(what, detail, remedy);
        }
        match REFUSED.into_iter().find(|(code, _)| *code == error.0) {
            Some((_, remedy)) => Error::refused("CUDA", "a call", detail, remedy),
            None => Error::device_failure("CUDA", "a call", detail),
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
            nvrtcResult::NVRTC_ERROR_OUT_OF_MEMORY => Error::exhausted("NVRTC", log),
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
            CUBLAS_STATUS_ALLOC_FAILED => Error::exhausted("cuBLAS", detail),
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
    Error::device_failure(format_args!("cuda:{}", context.ordinal()), operation, describe(error))
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
