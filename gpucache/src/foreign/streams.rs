//! Finds the stream of a handle on this thread, usually without a call of the driver.
//!
//! A handle means the same stream as before on this thread if no stream was destroyed meanwhile. For handles that depend on the context,
//! the context must be the same too. Code that bypasses this crate (CUDA's runtime library) may also destroy streams. New streams with the
//! same handle are recognized by their ids, which are queried once per entry.

use std::cell::RefCell;

use super::captures;
use super::driver::Driver;
use gpucache_engine::cache::Entry;
use gpucache_engine::device::{Handle, Stream};

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// In place of the number of ended streams, for what is found while a capture is open: a stream may join it at any time.
const NEVER: u64 = u64::MAX;

/// The result of the last look-up of a handle.
struct Last {
    handle: Handle,
    context: usize,
    ended: u64,
    entry: Entry,
    found: (Stream, Option<u64>),
    /// Whether a graph is captured on the stream in this entry, so that its memory belongs to the graph.
    is_captured: bool,
}

/// The reason why no stream is returned.
pub(super) enum Unknown {
    /// It belongs to a context that is not served, there is no context, or the thread is about to end.
    Context,
    /// A graph is captured on it.
    Captured,
}

/// Runs `act` with the stream that a handle means here and now, if it is the stream of the last look-up.
#[inline]
pub(super) fn with_known<R>(handle: Handle, entry: Entry, act: impl FnOnce(&Stream) -> R) -> Option<R> {
    let with = |last: &RefCell<Option<Last>>| {
        let last = last.try_borrow().ok()?;
        let known = last.as_ref().filter(|known| known.is(handle, entry) && !known.is_captured)?;
        Some(act(&known.found.0))
    };
    LAST.try_with(with).ok()?
}

/// Runs `act` with the stream that a handle means here and now.
pub(super) fn with<R>(handle: Handle, entry: Entry, act: impl FnOnce(&Stream) -> R) -> Result<R, Unknown> {
    let found = LAST.try_with(|last| look_up(last, handle, entry)).ok().flatten();
    found.unwrap_or(Err(Unknown::Context)).map(|stream| act(&stream))
}

impl Last {
    #[inline]
    fn is(&self, handle: Handle, entry: Entry) -> bool {
        let context = || Driver::get().map_or(0, Driver::current_context);
        self.handle == handle
            && self.entry == entry
            && self.ended == Handle::ended_streams()
            && (!handle.is_of_context() || self.context == context())
    }
}

#[cold]
fn look_up(last: &RefCell<Option<Last>>, handle: Handle, entry: Entry) -> Option<Result<Stream, Unknown>> {
    let ended = if captures::is_any() { NEVER } else { Handle::ended_streams() };
    let context = Driver::get()?.current_context();
    let mut last = last.try_borrow_mut().ok()?;
    let known = last
        .take()
        .filter(|last| last.handle == handle && last.ended == ended && ended != NEVER && last.context == context);
    let (found, is_captured) = match known {
        Some(last) if last.entry == entry => (last.found, last.is_captured),
        Some(last) if handle.is_still(last.found.1) => (last.found, false),
        _ => (handle.stream()?, false),
    };
    let stream = found.0.clone();
    // Whoever frees memory names one stream, and not all streams that used it.
    stream.memory().note_unknown_work();
    *last = Some(Last { handle, context, ended, entry, found, is_captured });
    Some(if is_captured { Err(Unknown::Captured) } else { Ok(stream) })
}

/// Notes that a graph is captured on the stream of the last look-up. In this entry, its memory belongs to the graph.
#[cold]
pub(super) fn note_capture(handle: Handle) {
    let note = |last: &RefCell<Option<Last>>| {
        if let Some(last) = last.try_borrow_mut().ok().as_deref_mut().and_then(Option::as_mut)
            && last.handle == handle
        {
            last.is_captured = true;
        }
    };
    let _ = LAST.try_with(note);
}
