//! Processes that were forked from one that uses a GPU. They cannot use the driver, and another thread of the parent may have held a lock at
//! that moment. Frees in such a process, by a garbage collector for example, do nothing.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Lets processes that are forked from now on know that they are.
pub(crate) fn watch() {
    static WATCH: Once = Once::new();
    // SAFETY: the handler is a plain function without arguments, which lives as long as the process and only stores a flag.
    WATCH.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(note_child)) });
}

extern "C" fn note_child() {
    IS_CHILD.store(true, Relaxed);
}

#[inline]
pub(crate) fn is_child() -> bool {
    IS_CHILD.load(Relaxed)
}
