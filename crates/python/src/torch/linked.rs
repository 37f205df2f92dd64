//! The functions in C++, as Rust sees them. Only their addresses are used, except for the last four.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char};

use gpucache::{Error, Result};

unsafe extern "C" {
    fn gpucache_torch_malloc();
    fn gpucache_torch_pool_malloc();
    fn gpucache_torch_free();
    fn gpucache_torch_init();
    fn gpucache_torch_empty_cache();
    fn gpucache_torch_fraction();
    fn gpucache_torch_base_alloc();
    fn gpucache_torch_record_stream();
    fn gpucache_torch_begin_allocate_to_pool();
    fn gpucache_torch_end_allocate_to_pool();
    fn gpucache_torch_release_pool();
    fn gpucache_torch_find_error(path: *const c_char) -> bool;
    fn gpucache_torch_set_limit(limit: *const c_char);
    fn gpucache_torch_note_limit(device: i32);
    fn gpucache_torch_used_devices() -> u64;
}

/// For `hooks.cpp`.
#[unsafe(no_mangle)]
extern "C" fn gpucache_torch_start_watch() {
    gpucache::__private::start_from_environment();
}

/// For `hooks.cpp`. The allocation that follows reports an error.
#[unsafe(no_mangle)]
extern "C" fn gpucache_torch_give_context(device: i32) {
    let _ = gpucache_capi::give_context(device);
}

pub(super) fn functions() -> Result<Vec<(&'static str, usize)>> {
    let functions: [(&'static str, unsafe extern "C" fn()); 11] = [
        ("malloc", gpucache_torch_malloc),
        ("pool_malloc", gpucache_torch_pool_malloc),
        ("free", gpucache_torch_free),
        ("set_init_fn", gpucache_torch_init),
        ("set_reset_fn", gpucache_torch_empty_cache),
        ("set_memory_fraction_fn", gpucache_torch_fraction),
        ("set_base_alloc_fn", gpucache_torch_base_alloc),
        ("set_record_stream_fn", gpucache_torch_record_stream),
        ("set_begin_allocate_to_pool", gpucache_torch_begin_allocate_to_pool),
        ("set_end_allocate_to_pool_fn", gpucache_torch_end_allocate_to_pool),
        ("set_release_pool", gpucache_torch_release_pool),
    ];
    Ok(functions.map(|(name, function)| (name, function as usize)).to_vec())
}

pub(super) fn find_error(path: &str) -> bool {
    let Ok(path) = CString::new(path) else { return false };
    // SAFETY: the function reads a text that ends with a zero, and keeps nothing of it.
    unsafe { gpucache_torch_find_error(path.as_ptr()) }
}

pub(super) fn set_limit(limit: &str) -> Result<()> {
    let text = CString::new(limit)
        .map_err(|_| Error::unavailable("a limit", "its text contains a zero byte", "pass a text such as \"20GiB\""))?;
    // SAFETY: the function copies the text, which ends with a zero.
    unsafe { gpucache_torch_set_limit(text.as_ptr()) };
    Ok(())
}

pub(super) fn note_limit(device: i32) {
    // SAFETY: the function writes an atomic number.
    unsafe { gpucache_torch_note_limit(device) }
}

pub(super) fn used_devices() -> u64 {
    // SAFETY: the function reads an atomic number.
    unsafe { gpucache_torch_used_devices() }
}
