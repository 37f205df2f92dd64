//! Moves that a subscriber of `tracing` hears of: once nobody has the array locked any more, as whoever hears it may ask for it.

#[cfg(feature = "tracing")]
use std::cell::{Cell, RefCell};

#[cfg(feature = "tracing")]
use crate::base::subscriber::TARGET;
use crate::device::Stream;

/// A move that was made.
#[cfg(feature = "tracing")]
struct Moved {
    device: u64,
    bytes: u64,
    way: &'static str,
}

#[cfg(feature = "tracing")]
thread_local! {
    static MOVED: RefCell<Vec<Moved>> = const { RefCell::new(Vec::new()) };
    /// How many moves are under way within each other: one that needs room makes others leave.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// An array of so many bytes moved, and is locked.
#[inline]
pub(super) fn note(_stream: &Stream, _bytes: u64, _way: &'static str) {
    #[cfg(feature = "tracing")]
    if tracing::enabled!(target: TARGET, tracing::Level::DEBUG) {
        let moved = Moved { device: _stream.memory_id(), bytes: _bytes, way: _way };
        // A thread that ends tells nothing.
        let _ = MOVED.try_with(|all| all.borrow_mut().push(moved));
    }
}

/// Runs what may move arrays, and locks none behind it; tells of them then, if nothing that moves others is around it.
#[inline]
pub(super) fn telling<R>(act: impl FnOnce() -> R) -> R {
    #[cfg(feature = "tracing")]
    DEPTH.set(DEPTH.get() + 1);
    let answer = act();
    #[cfg(feature = "tracing")]
    DEPTH.set(DEPTH.get() - 1);
    tell();
    answer
}

/// Tells of what moved.
#[inline]
pub(super) fn tell() {
    #[cfg(feature = "tracing")]
    if DEPTH.get() == 0 {
        for Moved { device, bytes, way } in MOVED.try_with(RefCell::take).unwrap_or_default() {
            tracing::debug!(target: TARGET, device, bytes, way, "array moved");
        }
    }
}
