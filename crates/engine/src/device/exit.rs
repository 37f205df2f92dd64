//! Whether the process is exiting. From then on no drop calls a driver, since the driver may be gone already.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::base::sync::OnceLock;
use crate::trace;

static EXITS: AtomicBool = AtomicBool::new(false);

/// Registers an exit handler with the C library. If the environment requests a trace, this also starts the trace, which the handler writes.
/// A device calls this after its driver was loaded. Exit handlers run in reverse order, so this one runs before the driver's own.
pub(super) fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // Other systems, for example WebAssembly, report no exit and have no driver that could be gone before.
        #[cfg(any(unix, windows))]
        {
            // SAFETY: `at_exit` is a plain `extern "C"` function without arguments. It lives as long as the process, touches no
            // thread-local values and cannot unwind. If the registration is refused, the flag stays unset, as before the call.
            unsafe { libc::atexit(at_exit) };
        }
        trace::start_from_environment();
    });
}

#[cfg_attr(not(any(unix, windows)), allow(dead_code))]
extern "C" fn at_exit() {
    process_exits_now();
    trace::write_at_exit();
    LAST_CALL.get().into_iter().for_each(|call| call());
}

/// A call of the front end at the exit.
static LAST_CALL: OnceLock<fn()> = OnceLock::new();

/// Has `call` called while the process exits. The first call of this function decides. `call` runs after the end of `main`, while other
/// threads may still run, and must end soon.
pub fn call_at_exit(call: fn()) {
    LAST_CALL.get_or_init(|| call);
    watch();
}

/// Notes that the process exits. The main thread also calls this when its thread-local values are dropped, which happens before exit
/// handlers run.
pub(super) fn process_exits_now() {
    EXITS.store(true, Relaxed);
}

/// Whether this is the thread that runs `main`. Its thread-local values are dropped only when the process exits: if `main` ends this thread by
/// `pthread_exit` and other threads go on, glibc does not drop them.
pub(crate) fn thread_is_main() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: both calls have no arguments, touch no memory of the process and cannot fail. They only return a number.
    return unsafe { libc::gettid() == libc::getpid() };
    // On other systems only the exit handler notes the exit.
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// Call this when the calling thread's local values are dropped. Returns whether the process exits, which is always so if this is the main
/// thread.
pub fn exits_with_thread() -> bool {
    if thread_is_main() {
        process_exits_now();
    }
    process_exits()
}

/// True once the process has begun to exit.
pub fn process_exits() -> bool {
    EXITS.load(Relaxed)
}
