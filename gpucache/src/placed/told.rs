//! Moves that a subscriber of `tracing` hears of: once nobody has the array locked any more, as whoever hears it may ask for it.

#[cfg(feature = "tracing")]
use std::cell::{Cell, RefCell};

use crate::device::Stream;
#[cfg(feature = "tracing")]
use gpucache_engine::base::subscriber::{self, TARGET, is_heard};

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
    if is_heard() {
        let moved = Moved { device: _stream.memory_id(), bytes: _bytes, way: _way };
        // A thread that ends tells nothing.
        let _ = MOVED.try_with(|all| all.borrow_mut().push(moved));
    }
}

/// Runs what may move arrays, and locks none behind it; tells of them then, if nothing that moves others is around it.
#[inline]
pub(super) fn telling<R>(act: impl FnOnce() -> R) -> R {
    #[cfg(feature = "tracing")]
    let inside = Inside::begin();
    let answer = act();
    #[cfg(feature = "tracing")]
    drop(inside);
    tell();
    answer
}

/// A move is under way while this lives.
#[cfg(feature = "tracing")]
struct Inside;

#[cfg(feature = "tracing")]
impl Inside {
    fn begin() -> Inside {
        DEPTH.set(DEPTH.get() + 1);
        Inside
    }
}

#[cfg(feature = "tracing")]
impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Tells of what moved.
#[inline]
fn tell() {
    #[cfg(feature = "tracing")]
    if DEPTH.get() == 0 {
        for Moved { device, bytes, way } in MOVED.try_with(RefCell::take).unwrap_or_default() {
            subscriber::tell(|| tracing::debug!(target: TARGET, device, bytes, way, "array moved"));
        }
    }
}
