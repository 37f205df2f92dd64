//! The driver's own functions, behind those of the same names that this crate has.

use std::ffi::{CStr, c_void};

use cudarc::driver::sys::{CUcontext, CUdeviceptr, CUresult, CUstream};

use crate::base::sync::OnceLock;

/// What is called of the driver here, by the types that its header declares, which no version has changed.
pub(super) struct Driver {
    pub(super) alloc_async: unsafe extern "C" fn(*mut CUdeviceptr, usize, CUstream) -> CUresult,
    pub(super) free_async: unsafe extern "C" fn(CUdeviceptr, CUstream) -> CUresult,
    pub(super) alloc: unsafe extern "C" fn(*mut CUdeviceptr, usize) -> CUresult,
    pub(super) free: unsafe extern "C" fn(CUdeviceptr) -> CUresult,
    pub(super) info: unsafe extern "C" fn(*mut usize, *mut usize) -> CUresult,
    pub(super) stream_destroy: unsafe extern "C" fn(CUstream) -> CUresult,
    pub(super) context: unsafe extern "C" fn(*mut CUcontext) -> CUresult,
    pub(super) synchronize: unsafe extern "C" fn() -> CUresult,
}

/// The library that the driver installs, under the name by which all find it.
pub(super) const LIBRARY: &CStr = c"libcuda.so.1";

impl Driver {
    /// The driver of this machine, if it has one with all of these.
    #[inline]
    pub(super) fn get() -> Option<&'static Driver> {
        static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Driver::load).as_ref()
    }

    #[cold]
    fn load() -> Option<Driver> {
        // SAFETY: the name is a C string. Loading runs the initialisers of the driver's library, which are made to be run by any
        // process at any time; it is never unloaded.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        let find = |name: &CStr| {
            // SAFETY: the library was opened and stays so; the name is a C string.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            (!found.is_null()).then_some(found)
        };
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the driver's header declares the function of this name with the type of the field, and the library's own is
                // asked for, by its handle.
                unsafe { std::mem::transmute::<*mut c_void, _>(find($name)?) }
            };
        }
        Some(Driver {
            alloc_async: function!(c"cuMemAllocAsync"),
            free_async: function!(c"cuMemFreeAsync"),
            alloc: function!(c"cuMemAlloc_v2"),
            free: function!(c"cuMemFree_v2"),
            info: function!(c"cuMemGetInfo_v2"),
            stream_destroy: function!(c"cuStreamDestroy_v2"),
            context: function!(c"cuCtxGetCurrent"),
            synchronize: function!(c"cuCtxSynchronize"),
        })
    }

    /// The context that is current on this thread, as a number; 0 if there is none.
    #[inline]
    pub(super) fn current_context(&self) -> usize {
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver writes one pointer, for which there is room.
        let _ = unsafe { (self.context)(&mut context) };
        context as usize
    }

    /// Waits until all work of the current context is done.
    pub(super) fn synchronize(&self) -> CUresult {
        // SAFETY: it takes nothing, and only waits.
        unsafe { (self.synchronize)() }
    }
}
