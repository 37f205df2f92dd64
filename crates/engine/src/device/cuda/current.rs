//! The context that is current on a thread while this crate works in a call that somebody else made of the driver: it is the same one
//! again afterwards.

use std::cell::Cell;

#[cfg(feature = "foreign")]
use cudarc::driver::result;
use cudarc::driver::sys;

thread_local! {
    // Without destructors, so that they can be asked at any time of a thread's end.
    static IS_KEPT: Cell<bool> = const { Cell::new(false) };
    /// What was current before it was changed, as a number; 0 for none.
    static BEFORE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Another context is about to be current than this one.
pub(super) fn note_change(before: Option<sys::CUcontext>) {
    if IS_KEPT.get() && BEFORE.get().is_none() {
        BEFORE.set(Some(before.map_or(0, |context| context as usize)));
    }
}

/// Runs `act`, after which the same context is current as before.
#[cfg(feature = "foreign")]
#[inline]
pub(crate) fn keeping_current<R>(act: impl FnOnce() -> R) -> R {
    struct Restore;
    impl Drop for Restore {
        #[inline]
        fn drop(&mut self) {
            IS_KEPT.set(false);
            if let Some(before) = BEFORE.take() {
                restore(before);
            }
        }
    }
    if IS_KEPT.replace(true) {
        return act();
    }
    let _restore = Restore;
    act()
}

#[cfg(feature = "foreign")]
#[cold]
#[allow(unsafe_code)]
fn restore(before: usize) {
    // SAFETY: it was current on this thread when the call began that somebody else made, who so keeps it alive; or it is null, which
    // the driver takes for none.
    let _ = unsafe { result::ctx::set_current(before as sys::CUcontext) };
}
