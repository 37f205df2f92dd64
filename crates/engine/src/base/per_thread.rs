//! What the engine knows of the calling thread beside its scopes: plain values without destructors, so that they can be read and
//! written at any time of a thread's end. Each value belongs to the module that its comment names.

use std::cell::Cell;

/// The values of one thread.
pub(crate) struct PerThread {
    /// Locks of ours that the thread holds (`base/held`).
    #[cfg(debug_assertions)]
    pub(crate) held: Cell<usize>,
    /// Errands of the thread that are paused, the first ones (`base/errand`).
    pub(crate) paused: Cell<usize>,
    /// Whether soft limits are limits now (`device/quota`).
    pub(crate) is_soft: Cell<bool>,
    /// Whether no handler of the program is called now (`pressure/handlers`).
    pub(crate) is_in_handler: Cell<bool>,
    #[cfg(feature = "cuda")]
    pub(crate) cuda: CudaCalls,
}

/// Calls of the CUDA driver that the thread is in.
#[cfg(feature = "cuda")]
pub(crate) struct CudaCalls {
    /// Whether the thread is in a call of our own to the driver's allocator (`device/cuda/own_calls`).
    pub(crate) is_own: Cell<bool>,
    /// Whether the context that is current is made current again afterwards (`device/cuda/current`).
    pub(crate) keeps_current: Cell<bool>,
    /// The context that was current before it was changed, as a number; 0 for none (`device/cuda/current`).
    pub(crate) current_before: Cell<Option<usize>>,
}

thread_local! {
    pub(crate) static THREAD: PerThread = const {
        PerThread {
            #[cfg(debug_assertions)]
            held: Cell::new(0),
            paused: Cell::new(0),
            is_soft: Cell::new(false),
            is_in_handler: Cell::new(false),
            #[cfg(feature = "cuda")]
            cuda: CudaCalls { is_own: Cell::new(false), keeps_current: Cell::new(false), current_before: Cell::new(None) },
        }
    };
}

/// Sets a flag of the calling thread while `act` runs.
#[inline]
pub(crate) fn with_flag<R>(flag: fn(&PerThread) -> &Cell<bool>, act: impl FnOnce() -> R) -> R {
    struct Reset(fn(&PerThread) -> &Cell<bool>, bool);
    impl Drop for Reset {
        #[inline]
        fn drop(&mut self) {
            THREAD.with(|thread| self.0(thread).set(self.1));
        }
    }
    let _reset = Reset(flag, THREAD.with(|thread| flag(thread).replace(true)));
    act()
}
