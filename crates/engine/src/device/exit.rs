//! Whether the process is on its way out. From then on no drop calls a driver, which may be gone already.
#![allow(unsafe_code)]

#[cfg(any(unix, windows))]
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[cfg(any(unix, windows))]
use crate::trace;

static EXITS: AtomicBool = AtomicBool::new(false);

/// Asks the C library to tell when the process exits, and begins the trace that is written then, if there is to be one. A device
/// calls this once its driver is loaded: exit handlers run in reverse order, so that this one runs before the driver's own.
#[cfg(any(unix, windows))]
pub(super) fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: `at_exit` is a plain `extern "C"` function without arguments that lives as long as the process, touches no
        // thread's locals and cannot unwind. A refused registration leaves the flag down, as before the call.
        unsafe { libc::atexit(at_exit) };
        trace::start_from_environment();
    });
}

#[cfg(any(unix, windows))]
extern "C" fn at_exit() {
    process_exits_now();
    trace::write_at_exit();
}

/// Elsewhere, as in a module of WebAssembly, nobody tells, and there is no driver that would go first.
#[cfg(not(any(unix, windows)))]
pub(super) fn watch() {}

/// Tells that the process exits: also for the end of the main thread's locals, which comes before exit handlers run.
pub(super) fn process_exits_now() {
    EXITS.store(true, Relaxed);
}

/// Whether this is the thread that `main` runs on, whose locals go only when the process does.
pub(crate) fn thread_is_main() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: neither call has an argument or touches memory, and neither can fail: they only answer a number.
    return unsafe { libc::gettid() == libc::getpid() };
    // Elsewhere the exit handler alone has to do.
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// The calling thread's locals are dropped: whether it is the main one, with which the process exits.
pub fn exits_with_thread() -> bool {
    let is_main = thread_is_main();
    if is_main {
        process_exits_now();
    }
    is_main
}

/// True once the process has begun to exit.
pub fn process_exits() -> bool {
    EXITS.load(Relaxed)
}
