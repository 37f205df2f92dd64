//! Values that the engine keeps for each thread, apart from those of its scopes (`cache/current`, `cache/caller`), those that are dropped with it
//! (`base/errand`), its trace (`trace/writer`) and its default streams (`device/cuda/lent`). The comment of each value names the module
//! that owns it.

use std::cell::Cell;

use super::finally::finally;

/// Plain values of one thread without destructors. They can be read and written at any time while the thread ends.
pub(crate) struct PerThread {
    /// Identifies the caller in whose name the thread works, or 0 (`cache/token`).
    pub(crate) token: Cell<u64>,
    /// The number of locks of this crate that the thread holds (`base/held`).
    #[cfg(debug_assertions)]
    pub(crate) held: Cell<usize>,
    /// How many caches the thread holds for a moment (`base/held`).
    pub(crate) briefs: Cell<usize>,
    /// How many errands of the thread are paused. These are always its first ones (`base/errand`).
    pub(crate) paused: Cell<usize>,
    /// Whether a request must also respect soft limits now (`device/quota`).
    pub(crate) is_soft: Cell<bool>,
    /// Whether calls of the program's pressure handlers are suppressed now (`pressure/handlers`).
    pub(crate) is_in_handler: Cell<bool>,
    /// The meter that the thread asked last what others gave back, and how often the thread itself gave memory back there since
    /// (`device/meter`).
    pub(crate) given_back: Cell<(usize, u64)>,
    /// Whether the thread does the work of a stream of the host (`device/host/queue`).
    pub(crate) does_host_work: Cell<bool>,
    /// Whether the thread put work on a stream that was not captured, while some stream was (`device/stream/capture`).
    pub(crate) has_other_work: Cell<bool>,
    /// Whether the thread is in a call that this crate itself makes to the driver's allocator (`device/cuda/own_calls`).
    #[cfg(feature = "cuda")]
    pub(crate) is_own_call: Cell<bool>,
    /// Whether the thread must restore the current CUDA context after its calls (`device/cuda/current`).
    #[cfg(feature = "cuda")]
    pub(crate) keeps_current: Cell<bool>,
    /// The context that was current before this crate changed it, as a number. 0 means that no context was current (`device/cuda/current`).
    #[cfg(feature = "cuda")]
    pub(crate) current_before: Cell<Option<usize>>,
}

thread_local! {
    pub(crate) static THREAD: PerThread = const {
        PerThread {
            token: Cell::new(0),
            #[cfg(debug_assertions)]
            held: Cell::new(0),
            briefs: Cell::new(0),
            paused: Cell::new(0),
            is_soft: Cell::new(false),
            is_in_handler: Cell::new(false),
            given_back: Cell::new((0, 0)),
            does_host_work: Cell::new(false),
            has_other_work: Cell::new(false),
            #[cfg(feature = "cuda")]
            is_own_call: Cell::new(false),
            #[cfg(feature = "cuda")]
            keeps_current: Cell::new(false),
            #[cfg(feature = "cuda")]
            current_before: Cell::new(None),
        }
    };
}

/// Sets a flag of the calling thread while `act` runs, then restores the flag's old value.
#[inline]
pub(crate) fn with_flag<R>(flag: fn(&PerThread) -> &Cell<bool>, act: impl FnOnce() -> R) -> R {
    let before = THREAD.with(|thread| flag(thread).replace(true));
    let _reset = finally(|| THREAD.with(|thread| flag(thread).set(before)));
    act()
}
