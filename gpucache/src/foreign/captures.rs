//! Captures that other code begins and ends by the driver's functions.
//!
//! A captured stream's allocations get memory that the graph alone has ([`GraphMemory`]). The graph then has no allocation nodes of the driver,
//! and eager work between its launches never gets this memory. Streams that join a capture are found by the driver's number of the capture,
//! which is asked for at each allocation and free while any capture is open. Meanwhile no thread uses what it found about a handle earlier.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::kept;
use gpucache_engine::Result;
use gpucache_engine::base::finally::finally;
use gpucache_engine::base::sync::{Mutex, lock};
use gpucache_engine::cache::{Block, GraphMemory};
use gpucache_engine::device::{Handle, Stream};
use gpucache_engine::record::Request;

/// A capture whose beginning was seen, and whose end was not.
#[derive(Clone)]
pub(super) struct OpenCapture {
    /// The driver's number of it.
    number: u64,
    origin: Handle,
    /// The stream on which it began, or another one that is captured with it.
    stream: Stream,
    memory: Arc<GraphMemory>,
}

static OPEN: Mutex<Vec<OpenCapture>> = Mutex::new(Vec::new());

/// How many captures are open or about to begin.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether any capture is open.
#[inline]
pub(super) fn is_any() -> bool {
    COUNT.load(Relaxed) > 0
}

/// Counts a capture that is open or about to begin.
fn count_up() {
    COUNT.fetch_add(1, Relaxed);
    Stream::begin_other_capture();
    Handle::forget_found();
}

/// Counts its end.
fn count_down() {
    Stream::end_other_capture();
    COUNT.fetch_sub(1, Relaxed);
    Handle::forget_found();
    kept::free();
}

/// Lets `begin` begin a capture of the stream, and reserves memory for it if it succeeds. A stream whose context is not served gets memory
/// from the driver. So does the per-thread default stream, whose handle means another stream on each thread.
pub(super) fn begin(handle: Handle, begin: impl FnOnce() -> bool) {
    // Found before the capture, since the driver answers few questions about a captured stream.
    let home = if handle.is_of_context() { None } else { handle.stream().map(|(stream, _)| stream) };
    home.iter().for_each(GraphMemory::prepare);
    // Counted before, so that nobody serves an allocation of the capture from a plan.
    count_up();
    let uncounted = finally(count_down);
    if !begin() {
        return;
    }
    if let Some((home, number)) = home.zip(handle.capture()) {
        home.begin_served_capture();
        let memory = GraphMemory::of_capture(handle);
        lock(&OPEN).push(OpenCapture { number, origin: handle, stream: home, memory });
        std::mem::forget(uncounted);
    }
}

/// Notes that the capture that began on this stream has ended, unless the driver says that it has not.
pub(super) fn end(handle: Handle) {
    forget(handle, handle.capture());
}

/// Forgets the captures that began on this stream, except the one of this number.
pub(super) fn forget(handle: Handle, except: Option<u64>) {
    if !is_any() {
        return;
    }
    let is_over = |open: &mut OpenCapture| open.origin == handle && Some(open.number) != except;
    let ended: Vec<_> = lock(&OPEN).extract_if(.., is_over).collect();
    // The streams are dropped while no lock is held.
    ended.into_iter().for_each(|open| {
        open.stream.end_served_capture();
        count_down();
    });
}

/// The open capture to which the stream that a handle means belongs, with that stream.
pub(super) fn of(handle: Handle) -> Option<OpenCapture> {
    if !is_any() {
        return None;
    }
    let number = handle.capture();
    forget(handle, number);
    let open = lock(&OPEN).iter().find(|open| Some(open.number) == number).cloned()?;
    let stream = if open.origin == handle { open.stream.clone() } else { handle.stream_in_capture(&open.stream)? };
    Some(OpenCapture { stream, ..open })
}

impl OpenCapture {
    /// Memory of the graph.
    pub(super) fn allocate(&self, request: &Request<'_>) -> Result<Block> {
        Handle::in_relaxed_capture(|| self.memory.allocate(&self.stream, request))
    }

    /// Takes back a block that the captured work frees. Earlier work of the stream may use it too.
    pub(super) fn take_back(&self, block: Block) {
        if block.stream().memory_id() != self.stream.memory_id() {
            // Streams of two devices share no events, and a captured stream cannot be waited for. So the memory is never used again.
            return std::mem::forget(block);
        }
        if !block.stream().is_reserved_on(&self.stream) {
            block.note_freed_elsewhere();
            block.used_by(&self.stream);
        }
        self.memory.take_back(&self.stream, block);
    }
}
