//! Which stream a handle means on this thread: found again without a call while nothing changed that could make it another one.
//!
//! A handle means what it meant last on this thread if no stream was destroyed meanwhile, and the context is the same where it depends on
//! that. Streams that are destroyed by code that does not come by here (CUDA's runtime library) are told apart by their ids, which are
//! asked for once an entry.

use std::cell::RefCell;

use super::driver::Driver;
use crate::device::Stream;
use gpucache_engine::cache::Entry;
use gpucache_engine::device::{Borrowed, Handle};

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// What a handle meant when it was looked up last.
struct Last {
    handle: Handle,
    context: usize,
    ended: u64,
    entry: Entry,
    found: Borrowed,
    /// Whether a graph is captured on it in this entry, so that its memory is the graph's.
    is_captured: bool,
}

/// Why there is no stream.
pub(super) enum Unknown {
    /// It is of a context that is not served, or there is none.
    Context,
    /// A graph is captured on it.
    Captured,
    /// The thread is about to end.
    ThreadEnds,
}

/// Runs `act` with the stream that a handle means here and now, if that is what it meant last.
#[inline]
pub(super) fn with_known<R>(handle: Handle, entry: Entry, act: impl FnOnce(&Stream) -> R) -> Option<R> {
    let with = |last: &RefCell<Option<Last>>| {
        let last = last.try_borrow().ok()?;
        let known = last.as_ref().filter(|known| known.is(handle, entry) && !known.is_captured)?;
        Some(act(&known.found.stream))
    };
    LAST.try_with(with).ok()?
}

/// Runs `act` with the stream that a handle means here and now.
pub(super) fn with<R>(handle: Handle, entry: Entry, act: impl FnOnce(&Stream) -> R) -> Result<R, Unknown> {
    let find = |last: &RefCell<Option<Last>>| look_up(last, handle, entry).ok_or(Unknown::Context)?;
    let stream = LAST.try_with(find).unwrap_or(Err(Unknown::ThreadEnds))?;
    Ok(act(&stream))
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
    let ended = Handle::ended_streams();
    let context = Driver::get()?.current_context();
    let mut last = last.try_borrow_mut().ok()?;
    let known = last.take().filter(|last| last.handle == handle && last.ended == ended && last.context == context);
    let (found, is_captured) = match known {
        Some(last) if last.entry == entry => (last.found, last.is_captured),
        Some(last) if handle.is_still(&last.found) => (last.found, false),
        _ => (handle.stream()?, false),
    };
    let stream = found.stream.clone();
    // Who frees memory tells of one stream, and not of all that used it.
    stream.memory().note_unknown_work();
    *last = Some(Last { handle, context, ended, entry, found, is_captured });
    Some(if is_captured { Err(Unknown::Captured) } else { Ok(stream) })
}

/// A graph is captured on the stream that was looked up last: in this entry its memory is the graph's.
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
