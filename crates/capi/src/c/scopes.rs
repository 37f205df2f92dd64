//! Scopes by their names.

use std::ffi::{CStr, CString, c_char};

use gpucache::{Error, Result};

use super::status::{status, wrong};
use crate::{enter, enter_uncached, in_scopes, invalidate, leave, set_auto_scope, set_backward_helps};

/// The text behind a pointer; `None` if it is null or no UTF-8.
///
/// # Safety
/// `text` is null or points to a text that ends with a zero and stays as it is for `'a`.
pub(super) unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    // SAFETY: by the contract above, a pointer that is not null has a text that ends with a zero.
    if text.is_null() { None } else { unsafe { CStr::from_ptr(text) }.to_str().ok() }
}

/// Enters the scope `name` (UTF-8): until `gpucache_leave`, what this thread allocates comes from its cache. Writes the number of the entry.
///
/// # Safety
/// `name` is null or a text that ends with a zero. `entry` is null or points to room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpucache_enter(name: *const c_char, entry: *mut u64) -> i32 {
    // SAFETY: by the contract above, `name` is null or a text, and `entry` is null or has room.
    let (name, entry) = unsafe { (text(name), entry.as_mut()) };
    match (name, entry) {
        (Some(name), Some(entry)) => status(|| enter(name).map(|number| *entry = number)),
        (None, _) => wrong("gpucache_enter: `name` is null or no UTF-8 text: pass a name that ends with a zero"),
        (_, None) => wrong("gpucache_enter: `entry` is null: pass room for the result"),
    }
}

/// Leaves all scopes until `gpucache_leave`: what this thread allocates belongs to no scope, which would keep it. Writes the number of the entry.
///
/// # Safety
/// `entry` is null or points to room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpucache_enter_uncached(entry: *mut u64) -> i32 {
    // SAFETY: by the contract above, `entry` is null or has room.
    match unsafe { entry.as_mut() } {
        Some(entry) => status(|| enter_uncached().map(|number| *entry = number)),
        None => wrong("gpucache_enter_uncached: `entry` is null: pass room for the result"),
    }
}

/// Ends an entry that this thread began. Entries may end in any order.
#[unsafe(no_mangle)]
pub extern "C" fn gpucache_leave(entry: u64) -> i32 {
    status(|| leave(entry))
}

/// Sets whether allocations outside of all scopes come from a scope named `auto` (1, the default) or belong to no scope (0). Each thread
/// follows with its next allocation.
#[unsafe(no_mangle)]
pub extern "C" fn gpucache_set_auto_scope(is_on: bool) {
    set_auto_scope(is_on);
}

/// Sets whether threads of PyTorch that run a backward pass use the scope of the thread that waits for them. This is on by default.
#[unsafe(no_mangle)]
pub extern "C" fn gpucache_set_backward_helps(helps: bool) {
    set_backward_helps(helps);
}

/// Frees the memory of the scope `name`, or of all scopes if it is null, on all threads. Writes the number of bytes unless `bytes` is null.
/// A name that no scope has frees 0 bytes. The first call with such a name prints a line on stderr. In a forked child of a process that
/// used a GPU, scopes with memory of a GPU keep it.
///
/// # Safety
/// `name` is null or a text that ends with a zero. `bytes` is null or points to room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpucache_invalidate(name: *const c_char, bytes: *mut u64) -> i32 {
    // SAFETY: by the contract above, `name` is null or a text, and `bytes` is null or has room.
    let (found, bytes) = unsafe { (text(name), bytes.as_mut()) };
    if found.is_none() && !name.is_null() {
        return wrong("gpucache_invalidate: `name` is no UTF-8 text: pass the name of a scope, or null for all scopes");
    }
    status(|| {
        let freed = invalidate(found);
        bytes.into_iter().for_each(|bytes| *bytes = freed);
        Ok(())
    })
}

/// Writes the statistics and the diagnosis of the scope `name` as a text, or the statistics of the process if it is null. The caller frees
/// the text by `gpucache_string_free`.
///
/// # Safety
/// `name` is null or a text that ends with a zero. `report` is null or points to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpucache_report(name: *const c_char, report: *mut *mut c_char) -> i32 {
    // SAFETY: by the contract above, `name` is null or a text, and `report` is null or has room.
    let (found, report) = unsafe { (text(name), report.as_mut()) };
    if found.is_none() && !name.is_null() {
        return wrong("gpucache_report: `name` is no UTF-8 text: pass the name of a scope, or null for the process");
    }
    match report {
        Some(report) => status(|| in_scopes(|| told(found)).map(|told| *report = told.into_raw())),
        None => wrong("gpucache_report: `report` is null: pass room for the result"),
    }
}

/// The report of a scope, or of the process.
fn told(name: Option<&str>) -> Result<CString> {
    let told = match name {
        None => gpucache::stats::process().to_string(),
        Some(name) => {
            let found = gpucache::stats(name).zip(gpucache::diagnose(name));
            found.map(|(stats, found)| format!("{stats}\n{found}")).ok_or_else(|| no_scope(name))?
        }
    };
    // A name of a scope that Rust code made may contain a zero.
    Ok(CString::new(told.replace('\0', " ")).unwrap_or_default())
}

fn no_scope(name: &str) -> Error {
    Error::unavailable(
        format_args!("the scope `{name}`"),
        "no thread has entered a scope of this name, or it was forgotten since",
        "pass a name that gpucache_enter got, or null for the whole process",
    )
}

/// Frees a text that `gpucache_report` wrote. Null is ignored.
///
/// # Safety
/// `text` is null, or comes from `gpucache_report` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpucache_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: by the contract above, `gpucache_report` made the text by `into_raw`, and nobody has freed it.
        drop(unsafe { CString::from_raw(text) });
    }
}
