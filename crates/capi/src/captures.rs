//! Whether a framework captures a graph now, and calls of the driver meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use gpucache_engine::device::{Handle, Stream};

/// How many captures are open.
static OPEN: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn begin() {
    OPEN.fetch_add(1, Relaxed);
    Stream::begin_other_capture();
}

pub(crate) fn end() {
    OPEN.fetch_sub(1, Relaxed);
    Stream::end_other_capture();
}

#[inline]
pub(crate) fn is_any() -> bool {
    OPEN.load(Relaxed) > 0
}

/// Runs `act`, and leaves the thread's current context as it was. While a graph is captured, the driver then allows calls that a capture on
/// another thread would forbid.
#[inline]
pub(crate) fn relaxed<R>(act: impl FnOnce() -> R) -> R {
    Handle::keeping_current(|| if is_any() { Handle::in_relaxed_capture(act) } else { act() })
}
