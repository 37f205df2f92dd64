//! Work on bare addresses.

use cudarc::driver::{CudaStream, result};

/// Copies between bare addresses, on a stream that was told of them or is told by nobody.
///
/// # Safety
/// Both are places of `bytes` bytes on the stream's device, and stay so until the copy is done.
pub(crate) unsafe fn copy_at(stream: &CudaStream, to: u64, from: u64, bytes: usize) {
    stream.context().bind_to_thread().unwrap();
    // SAFETY: the caller's contract; the stream lives, and its context is current.
    unsafe { result::memcpy_dtod_async(to, from, bytes, stream.cu_stream()) }.unwrap();
}
