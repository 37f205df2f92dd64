//! The status of a call, and the message of the last call that failed.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use gpucache::{Error, Result};

use crate::message;

/// The call did what it says.
pub const GPUCACHE_OK: i32 = 0;
/// No memory is left on the device, or within a limit.
pub const GPUCACHE_OUT_OF_MEMORY: i32 = 1;
/// An argument is no valid one: a null pointer, a text that is no UTF-8, or one that is no limit.
pub const GPUCACHE_INVALID_ARGUMENT: i32 = 2;
/// Something does not exist or does not work here: a driver, a device, a stream, an allocation at this address, an open entry.
pub const GPUCACHE_UNAVAILABLE: i32 = 3;
/// The device reports a failure.
pub const GPUCACHE_DEVICE_FAILURE: i32 = 4;

/// The number of this interface. A program that was compiled with another number must not call the other functions.
pub const GPUCACHE_ABI_VERSION: u32 = 1;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The number of this interface: 1. It changes if a declaration of the header changes its meaning.
#[unsafe(no_mangle)]
pub extern "C" fn gpucache_abi_version() -> u32 {
    GPUCACHE_ABI_VERSION
}

/// The message of the last call of this thread that failed, in UTF-8. It is valid until the next call of this thread that fails. It is empty
/// if none failed, or if the thread is about to end.
#[unsafe(no_mangle)]
pub extern "C" fn gpucache_last_error() -> *const c_char {
    LAST.try_with(|last| last.try_borrow().map_or(c"".as_ptr(), |last| last.as_ptr())).unwrap_or(c"".as_ptr())
}

/// The message of the last call of this thread that failed.
///
/// ```
/// gpucache_capi::c::gpucache_leave(u64::MAX);
/// assert!(gpucache_capi::c::last_error().contains("not open"));
/// ```
pub fn last_error() -> String {
    LAST.try_with(|last| last.try_borrow().map(|last| last.to_string_lossy().into_owned()).unwrap_or_default())
        .unwrap_or_default()
}

/// Keeps the message of a call that failed.
#[cold]
fn keep(message: String) {
    // A zero would end the text early for C.
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| *last = text));
}

/// Runs a call and returns its status. A panic, which would be a defect of this crate, is a device failure to C.
#[inline]
pub(super) fn status(call: impl FnOnce() -> Result<()>) -> i32 {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => GPUCACHE_OK,
        Ok(Err(error)) => failed(&error),
        Err(_) => {
            keep("gpucache panicked, which is a defect: please report the message that it printed".into());
            GPUCACHE_DEVICE_FAILURE
        }
    }
}

#[cold]
fn failed(error: &Error) -> i32 {
    keep(message(error, "pass device -1, which is the host"));
    match () {
        () if error.is_shortage() => GPUCACHE_OUT_OF_MEMORY,
        () if error.is_unavailable() => GPUCACHE_UNAVAILABLE,
        () => GPUCACHE_DEVICE_FAILURE,
    }
}

/// The status of a call with a wrong argument.
#[cold]
pub(super) fn wrong(message: &str) -> i32 {
    keep(message.into());
    GPUCACHE_INVALID_ARGUMENT
}
