//! Processes that were forked from one that uses a GPU. They cannot use the driver, so requests for a GPU are errors there. Frees of the
//! parent's memory on a GPU, by a garbage collector for example, and notes of its uses do nothing. Host memory works as in any other process.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use gpucache::{Error, Result};
use gpucache_engine::device::Handle;

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Lets processes that are forked from now on know that they are.
pub(crate) fn watch() {
    static WATCH: Once = Once::new();
    // SAFETY: the handler is a plain function without arguments, which lives as long as the process and only stores a flag.
    WATCH.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(note_child)) });
}

extern "C" fn note_child() {
    IS_CHILD.store(true, Relaxed);
    // Callers look up their streams again, and the streams of GPUs are refused from now on. So the look-up costs nothing in other processes.
    Handle::forget_found();
}

/// Refuses GPU number `ordinal` in a forked child.
pub(crate) fn refuse_gpu(ordinal: usize) -> Result<()> {
    if !is_child() {
        return Ok(());
    }
    Err(Error::unavailable(
        format_args!("GPU {ordinal}"),
        "a forked child cannot use the GPU",
        "start the process with spawn instead of fork, or use the GPU only in the parent process",
    ))
}

#[inline]
pub(crate) fn is_child() -> bool {
    IS_CHILD.load(Relaxed)
}
