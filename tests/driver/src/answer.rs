//! The common part of the driver's functions: each is counted, returns a status, fails on purpose
//! if a test asks for it, and lets no panic out. Also the places that
//! callers give for results.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use crate::status::Status;
use crate::{fails, uses};

/// The status of a function, without its results.
pub(crate) type Answer<T = ()> = Result<T, Status>;

static CALLS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Whether the process has reached the point where the driver's library is finished.
static IS_OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn finish() {
    IS_OVER.store(true, Ordering::SeqCst);
}

// SAFETY: the loader calls the entries of this section when the library is finished, and expects such functions there.
#[unsafe(link_section = ".fini_array")]
#[used]
static FINISH: extern "C" fn() = finish;

/// A lock that a panic of another thread does not close.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the function called `name`.
pub(crate) fn answer(name: &'static str, call: impl FnOnce() -> Answer) -> Status {
    *lock(&CALLS).entry(name).or_default() += 1;
    if IS_OVER.load(Ordering::SeqCst) {
        return Status::DEINITIALIZED;
    }
    // After a loss of the context, programs can still ask for the meaning of an error, and for the number of calls.
    if uses::is_lost() && !name.starts_with("cuGetError") && !name.starts_with("madeup") {
        return Status::ILLEGAL_ADDRESS;
    }
    if let Err(status) = fails::check(name) {
        return status;
    }
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => Status::SUCCESS,
        Ok(Err(status)) => status,
        Err(_) => Status::UNKNOWN,
    }
}

/// How often the function called `name` was called.
pub(crate) fn calls(name: &str) -> u64 {
    lock(&CALLS).get(name).copied().unwrap_or(0)
}

/// A place for a result.
///
/// Invariant: null, or valid for one write. It only comes from a caller of the driver, who promises this.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub(crate) fn put(&self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: it is not null, and so valid for a write, by the type's invariant.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// For a place that the caller may leave out.
    pub(crate) fn put_if_wanted(&self, value: T) {
        let _ = self.put(value);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        !self.0.is_null()
    }

    #[cfg(test)]
    pub(crate) fn of(place: &mut T) -> Out<T> {
        Out(place)
    }

    /// A place that the caller leaves out.
    #[cfg(test)]
    pub(crate) fn of_null() -> Out<T> {
        Out(std::ptr::null_mut())
    }
}

/// A text of the caller.
///
/// Invariant: null, or a text that ends with a zero. It only comes from a caller, who promises this.
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn read(&self) -> Option<&str> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: it is not null, and so a text that ends with a zero, by the type's invariant.
        unsafe { CStr::from_ptr(self.0) }.to_str().ok()
    }

    #[cfg(test)]
    pub(crate) fn of(text: &'static CStr) -> Text {
        Text(text.as_ptr())
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGetErrorName(status: Status, text: Out<*const c_char>) -> Status {
    answer("cuGetErrorName", || text.put(status.words().ok_or(Status::INVALID_VALUE)?.0.as_ptr()))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGetErrorString(status: Status, text: Out<*const c_char>) -> Status {
    answer("cuGetErrorString", || text.put(status.words().ok_or(Status::INVALID_VALUE)?.1.as_ptr()))
}
