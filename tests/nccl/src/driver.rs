//! The functions of the driver that this library calls.

use std::ffi::c_void;
use std::sync::OnceLock;

use libloading::Library;

pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// The driver's functions.
pub(crate) struct Driver {
    pub(crate) launch: unsafe extern "C" fn(usize, Option<HostFunction>, *mut c_void) -> i32,
    pub(crate) allocate: unsafe extern "C" fn(*mut u64, usize) -> i32,
    pub(crate) free: unsafe extern "C" fn(u64) -> i32,
    _library: Library,
}

/// The driver of this process, if it has one.
pub(crate) fn get() -> Option<&'static Driver> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    // SAFETY: the driver is open in this process already. The functions have these types in its header, and it is never unloaded.
    let load = || unsafe {
        let library = Library::new("libcuda.so.1").ok()?;
        Some(Driver {
            launch: *library.get(b"cuLaunchHostFunc").ok()?,
            allocate: *library.get(b"cuMemAlloc_v2").ok()?,
            free: *library.get(b"cuMemFree_v2").ok()?,
            _library: library,
        })
    };
    DRIVER.get_or_init(load).as_ref()
}
