//! `?` converts errors of cudarc, NVRTC, cuBLAS and NCCL in functions that return this crate's errors, with or without a driver.
#![cfg(feature = "cuda")]

use cudarc::cublas::{CudaBlas, result::CublasError, sys::cublasStatus_t};
use cudarc::driver::{CudaFunction, DriverError, sys::CUresult};
use cudarc::nccl::{result::NcclError, sys::ncclResult_t};
use cudarc::nvrtc::{CompileError, compile_ptx, result::NvrtcError, sys::nvrtcResult};
use gpucache::{Error, prelude::*};

/// Uses all of them in one function. This compiles everywhere, and runs only on machines with a GPU.
fn prepared(gpu: &Cuda, source: &str) -> gpucache::Result<(CudaFunction, CudaBlas)> {
    let function = gpu.stream().context().load_module(compile_ptx(source)?)?.load_function("kernel")?;
    let mut copy = Array::<f32, _>::zeros(gpu, 4)?;
    gpu.stream().memcpy_htod(&[1.0; 4], &mut copy)?;
    Ok((function, CudaBlas::new(gpu.stream().clone())?))
}

fn after(code: CUresult) -> Error {
    let call = || -> gpucache::Result<()> { Ok(Err(DriverError(code))?) };
    call().unwrap_err()
}

#[test]
fn what_the_driver_answers() {
    let memory = after(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    assert!(memory.is_out_of_memory() && !memory.is_deferred(), "{memory}");
    let module = after(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    assert!(module.is_unavailable(), "{module}");
    for code in [CUresult::CUDA_ERROR_INVALID_VALUE, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS] {
        assert!(after(code).is_device_failure(), "{}", after(code));
    }
}

#[test]
fn a_message_names_the_answer_and_a_remedy() {
    for (code, remedy) in [
        (CUresult::CUDA_ERROR_OUT_OF_MEMORY, "drop arrays"),
        (CUresult::CUDA_ERROR_NOT_FOUND, "check the name"),
        (CUresult::CUDA_ERROR_INVALID_VALUE, "arguments"),
        (CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "end this process"),
    ] {
        let message = after(code).to_string();
        assert!(message.contains(&format!("{code:?}")) && message.contains(remedy), "{message}");
    }
}

#[test]
fn what_nvrtc_answers_comes_with_its_log() {
    let log = c"kernel.cu(1): error: expected a \";\"\n".to_owned();
    let nvrtc = NvrtcError(nvrtcResult::NVRTC_ERROR_COMPILATION);
    let error = Error::from(CompileError::CompileError { nvrtc, options: Vec::new(), log });
    assert!(error.is_unavailable() && error.to_string().contains("kernel.cu(1)"), "{error}");
    let memory = CompileError::CreationError(NvrtcError(nvrtcResult::NVRTC_ERROR_OUT_OF_MEMORY));
    assert!(Error::from(memory).is_out_of_memory());
}

#[test]
fn what_cublas_answers() {
    let of = |status| Error::from(CublasError(status));
    assert!(of(cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED).is_out_of_memory());
    assert!(of(cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED).is_unavailable());
    assert!(of(cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED).is_device_failure());
    let refused = of(cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE);
    assert!(refused.is_device_failure() && refused.to_string().contains("leading dimensions"), "{refused}");
}

#[test]
fn what_nccl_answers() {
    let of = |code| Error::from(NcclError(code));
    let refused = of(ncclResult_t::ncclInvalidArgument);
    assert!(refused.is_device_failure() && refused.to_string().contains("ranks"), "{refused}");
    let remote = of(ncclResult_t::ncclRemoteError);
    assert!(remote.is_device_failure() && remote.to_string().contains("ncclRemoteError"), "{remote}");
}

#[test]
fn all_of_them_in_one_function() {
    let _: fn(&Cuda, &str) -> gpucache::Result<(CudaFunction, CudaBlas)> = prepared;
}
