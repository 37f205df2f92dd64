//! The functions of the made-up driver beside CUDA's.

use std::ffi::{CString, c_char, c_void};
use std::sync::OnceLock;

use cudarc::driver::{CudaStream, sys};
use libloading::Library;

use crate::report::Outcome;

/// The functions that allocate memory of the device.
const ALLOCATIONS: [&str; 4] = ["cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuMemAlloc_v2", "cuMemCreate"];

type Calls = unsafe extern "C" fn(*const c_char) -> u64;
type Destroy = unsafe extern "C" fn(*mut c_void) -> u32;
type Delay = unsafe extern "C" fn(*mut c_void, u64) -> u32;

fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    // SAFETY: any process may load a driver's library.
    LIBRARY.get_or_init(|| unsafe { Library::new("libcuda.so.1") }.ok()).as_ref()
}

/// Whether there is a driver, made-up or real.
pub(crate) fn is_present() -> bool {
    library().is_some()
}

/// How often the driver's function of this name was called.
pub(crate) fn calls(name: &str) -> Outcome<u64> {
    let library = library().ok_or("no driver")?;
    let name = CString::new(name)?;
    // SAFETY: the made-up driver has a function of this name and type, and no other driver has one. The name is a text that ends
    // with a zero.
    Ok(unsafe { library.get::<Calls>(b"madeup_calls\0")?(name.as_ptr()) })
}

/// How often memory of the device was requested.
pub(crate) fn allocations() -> Outcome<u64> {
    ALLOCATIONS.iter().map(|name| calls(name)).sum()
}

/// Lets a stream sleep after its present work, so that later work is late.
pub(crate) fn delay(stream: &CudaStream, milliseconds: u64) -> Outcome<()> {
    // SAFETY: the stream is borrowed, so it is alive.
    unsafe { delay_raw(stream.cu_stream(), milliseconds) }
}

/// As [`delay`], for a handle.
///
/// # Safety
/// The handle is that of a live stream.
pub(crate) unsafe fn delay_raw(stream: sys::CUstream, milliseconds: u64) -> Outcome<()> {
    let library = library().ok_or("no driver")?;
    // SAFETY: the made-up driver has a function of this name and type, and no other driver has one. The caller promises that the
    // stream is alive.
    let status = unsafe { library.get::<Delay>(b"madeup_delay\0")?(stream.cast(), milliseconds) };
    if status == 0 { Ok(()) } else { Err(format!("a delay: {status}").into()) }
}

/// Destroys a stream by the driver's own function, like a library that found the driver by itself.
///
/// # Safety
/// Nobody uses the stream afterwards.
pub(crate) unsafe fn destroy(stream: &CudaStream) -> Outcome<()> {
    let library = library().ok_or("no driver")?;
    // SAFETY: the type is that of the function in the driver's header. The caller gives a live stream.
    let status = unsafe { library.get::<Destroy>(b"cuStreamDestroy_v2\0")?(stream.cu_stream().cast()) };
    if status == 0 { Ok(()) } else { Err(format!("the end of a stream: {status}").into()) }
}
