//! Work on bare addresses.

use cudarc::driver::{CudaStream, result};

/// Copies between bare addresses, on a stream that was told about them or not.
///
/// # Safety
/// Both addresses have `bytes` bytes on the stream's device, and stay valid until the copy is done.
pub(crate) unsafe fn copy_at(stream: &CudaStream, to: u64, from: u64, bytes: usize) {
    stream.context().bind_to_thread().unwrap();
    // SAFETY: by the caller's contract. The stream lives, and its context is current.
    unsafe { result::memcpy_dtod_async(to, from, bytes, stream.cu_stream()) }.unwrap();
}
