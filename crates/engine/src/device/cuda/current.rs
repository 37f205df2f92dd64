//! Restores the current context of a thread after this crate worked within a call of other code.
//!
//! All code of this crate that makes a context current notes the context before: [`driver::bind`](super::driver::bind) and
//! [`driver::primary_context`](super::driver::primary_context). So a call that changes nothing asks the driver nothing.

use cudarc::driver::{result, sys};

use super::Handle;
use crate::base::finally::finally;
use crate::base::per_thread::{THREAD, with_flag};

/// Notes that this context is about to be replaced as the current one.
pub(super) fn note_change(before: Option<sys::CUcontext>) {
    THREAD.with(|thread| {
        if thread.keeps_current.get() && thread.current_before.get().is_none() {
            thread.current_before.set(Some(before.map_or(0, |context| context as usize)));
        }
    });
}

impl Handle {
    /// Runs `act`. Afterwards the same context is current as before.
    #[inline]
    pub fn keeping_current<R>(act: impl FnOnce() -> R) -> R {
        if THREAD.with(|thread| thread.keeps_current.get()) {
            return act();
        }
        // Dropped after the flag is reset, so its own change of the context is not noted.
        let _restore = finally(|| {
            if let Some(before) = THREAD.with(|thread| thread.current_before.take()) {
                restore(before);
            }
        });
        with_flag(|thread| &thread.keeps_current, act)
    }
}

#[cold]
#[allow(unsafe_code)]
fn restore(before: usize) {
    // SAFETY: the context was current on this thread when the other code's call began, so that code keeps it alive. Or it is null, which
    // means no context to the driver.
    let _ = unsafe { result::ctx::set_current(before as sys::CUcontext) };
}
