//! Processes that were forked from one that uses a GPU. They cannot use the driver, so requests for a GPU are errors there. Frees of the
//! parent's memory on a GPU, by a garbage collector for example, notes of its uses, and ends of its pools do nothing. Host memory works
//! unless another thread of the parent was inside this crate at the moment of the fork: its locks stay locked in the child.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use gpucache::{Error, Result};
use gpucache_engine::cache::NamedCaches;
use gpucache_engine::device::{Handle, HostStream, Stream};

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

/// Whether this is a forked child and the stream is one of a GPU, so that only the parent can use its memory.
#[inline]
pub(crate) fn is_of_parent(stream: &Stream) -> bool {
    is_child() && Handle::device_of(stream).is_some()
}

/// Frees the memory of a scope, or of all scopes, and returns the bytes. In a forked child, scopes with memory of a GPU are left alone.
pub(crate) fn invalidate(name: Option<&str>) -> u64 {
    let is_of_parent = |scope: &NamedCaches| {
        let host = HostStream::default().stream_handle().memory_id();
        !scope.caches().iter().all(|cache| cache.serves_only(host))
    };
    match name {
        Some(name) if is_child() && NamedCaches::find(name).is_some_and(|scope| is_of_parent(&scope)) => 0,
        Some(name) => gpucache::invalidate(name).bytes,
        None if is_child() => {
            let own = NamedCaches::all().into_iter().filter(|scope| !is_of_parent(scope));
            own.map(|scope| gpucache::invalidate(&**scope.name()).bytes).sum()
        }
        None => gpucache::invalidate_all().bytes,
    }
}
