//! The driver's own functions, which this crate's functions of the same names replace.

use std::mem::ManuallyDrop;

use cudarc::driver::sys::{CUcontext, CUdeviceptr, CUgraph, CUresult, CUstream, CUstreamCaptureMode};
use libloading::Library;

use gpucache_engine::base::sync::OnceLock;
use gpucache_engine::device::Handle;

/// The driver's functions that this crate calls, with the types that its header declares. No version has changed them.
pub(super) struct Driver {
    pub(super) alloc_async: unsafe extern "C" fn(*mut CUdeviceptr, usize, CUstream) -> CUresult,
    pub(super) free_async: unsafe extern "C" fn(CUdeviceptr, CUstream) -> CUresult,
    pub(super) alloc: unsafe extern "C" fn(*mut CUdeviceptr, usize) -> CUresult,
    pub(super) free: unsafe extern "C" fn(CUdeviceptr) -> CUresult,
    pub(super) info: unsafe extern "C" fn(*mut usize, *mut usize) -> CUresult,
    pub(super) begin_capture: unsafe extern "C" fn(CUstream, CUstreamCaptureMode) -> CUresult,
    pub(super) end_capture: unsafe extern "C" fn(CUstream, *mut CUgraph) -> CUresult,
    pub(super) stream_destroy: unsafe extern "C" fn(CUstream) -> CUresult,
    pub(super) stream_synchronize: unsafe extern "C" fn(CUstream) -> CUresult,
    pub(super) context: unsafe extern "C" fn(*mut CUcontext) -> CUresult,
    pub(super) synchronize: unsafe extern "C" fn() -> CUresult,
}

/// The library that the driver installs, under the name by which all programs find it.
pub(super) const LIBRARY: &str = "libcuda.so.1";

/// Finds the library's own function with this name.
///
/// # Safety
/// The function must have the type `F`, and the library must never be unloaded.
unsafe fn find<F: Copy>(library: &Library, name: &str) -> Option<F> {
    // SAFETY: the caller promises that the function has this type; it is not called here.
    unsafe { library.get::<F>(name.as_bytes()) }.ok().map(|found| *found)
}

impl Driver {
    /// The driver of this machine, if it has one with all of these functions.
    #[inline]
    pub(super) fn get() -> Option<&'static Driver> {
        static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Driver::load).as_ref()
    }

    #[cold]
    fn load() -> Option<Driver> {
        // SAFETY: loading runs the initializers of the driver's library, which any process may run at any time.
        let library = ManuallyDrop::new(unsafe { Library::new(LIBRARY) }.ok()?);
        // SAFETY: the driver's header declares the functions with these names and the types of the fields. The library is never
        // dropped, so they stay valid.
        unsafe {
            Some(Driver {
                alloc_async: find(&library, "cuMemAllocAsync")?,
                free_async: find(&library, "cuMemFreeAsync")?,
                alloc: find(&library, "cuMemAlloc_v2")?,
                free: find(&library, "cuMemFree_v2")?,
                info: find(&library, "cuMemGetInfo_v2")?,
                begin_capture: find(&library, "cuStreamBeginCapture_v2")?,
                end_capture: find(&library, "cuStreamEndCapture")?,
                stream_destroy: find(&library, "cuStreamDestroy_v2")?,
                stream_synchronize: find(&library, "cuStreamSynchronize")?,
                context: find(&library, "cuCtxGetCurrent")?,
                synchronize: find(&library, "cuCtxSynchronize")?,
            })
        }
    }

    /// The current context of this thread, as a number; 0 if there is none.
    #[inline]
    pub(super) fn current_context(&self) -> usize {
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver writes one pointer, for which `context` has room.
        let _ = unsafe { (self.context)(&mut context) };
        context as usize
    }

    /// Waits until all work is done of the current context, if there is one, and of this stream, which may belong to another context.
    /// Failures belong to that work and are ignored here.
    pub(super) fn synchronize(&self, handle: Handle) {
        // SAFETY: the first function takes no argument. The second gets the handle of a live stream, on which the caller frees memory.
        unsafe {
            if self.current_context() != 0 {
                let _ = (self.synchronize)();
            }
            if !handle.is_of_context() {
                let _ = (self.stream_synchronize)(handle.0 as CUstream);
            }
        }
    }
}
