//! Values that the engine keeps for each thread, apart from its scopes. They are plain values without destructors, so they can be read and
//! written at any time while a thread ends. The comment of each value names the module that owns it.

use std::cell::Cell;

/// The values of one thread.
pub(crate) struct PerThread {
    /// The number of locks of this crate that the thread holds (`base/held`).
    #[cfg(debug_assertions)]
    pub(crate) held: Cell<usize>,
    /// How many errands of the thread are paused. These are always its first ones (`base/errand`).
    pub(crate) paused: Cell<usize>,
    /// Whether a request must also respect soft limits now (`device/quota`).
    pub(crate) is_soft: Cell<bool>,
    /// Whether calls of the program's pressure handlers are suppressed now (`pressure/handlers`).
    pub(crate) is_in_handler: Cell<bool>,
    #[cfg(feature = "cuda")]
    pub(crate) cuda: CudaCalls,
}

/// The state of the thread between its calls of the CUDA driver.
#[cfg(feature = "cuda")]
pub(crate) struct CudaCalls {
    /// Whether the thread is in a call that this crate itself makes to the driver's allocator (`device/cuda/own_calls`).
    pub(crate) is_own: Cell<bool>,
    /// Whether the thread must restore the current CUDA context after its calls (`device/cuda/current`).
    pub(crate) keeps_current: Cell<bool>,
    /// The context that was current before this crate changed it, as a number. 0 means that no context was current (`device/cuda/current`).
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

/// Sets a flag of the calling thread while `act` runs, then restores the flag's old value.
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
