//! The context that is current on a thread while this crate works in a call that somebody else made of the driver: it is the same one
//! again afterwards.

#[cfg(feature = "foreign")]
use cudarc::driver::result;
use cudarc::driver::sys;

use crate::base::per_thread::THREAD;
#[cfg(feature = "foreign")]
use crate::base::per_thread::with_flag;

/// Another context is about to be current than this one.
pub(super) fn note_change(before: Option<sys::CUcontext>) {
    THREAD.with(|thread| {
        if thread.cuda.keeps_current.get() && thread.cuda.current_before.get().is_none() {
            thread.cuda.current_before.set(Some(before.map_or(0, |context| context as usize)));
        }
    });
}

/// Runs `act`, after which the same context is current as before.
#[cfg(feature = "foreign")]
#[inline]
pub(crate) fn keeping_current<R>(act: impl FnOnce() -> R) -> R {
    struct Restore;
    impl Drop for Restore {
        #[inline]
        fn drop(&mut self) {
            if let Some(before) = THREAD.with(|thread| thread.cuda.current_before.take()) {
                restore(before);
            }
        }
    }
    if THREAD.with(|thread| thread.cuda.keeps_current.get()) {
        return act();
    }
    // Dropped once the flag is reset, so that what it does is no change.
    let _restore = Restore;
    with_flag(|thread| &thread.cuda.keeps_current, act)
}

#[cfg(feature = "foreign")]
#[cold]
#[allow(unsafe_code)]
fn restore(before: usize) {
    // SAFETY: it was current on this thread when the call began that somebody else made, who so keeps it alive; or it is null, which
    // the driver takes for none.
    let _ = unsafe { result::ctx::set_current(before as sys::CUcontext) };
}
