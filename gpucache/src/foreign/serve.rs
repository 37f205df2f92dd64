//! Decides which calls are served and which are passed on to the driver, and orders a free.
//!
//! An allocation is served if the thread is inside a scope that keeps memory, and the stream belongs to a device's own context. If the
//! stream is captured, the graph's own memory serves it (`captures`). Other memory returns to the scope in the order of the stream on which
//! it was allocated. If a program frees it on another stream, the earlier work of that stream may use it, so the memory's next life waits
//! for both streams.

use super::captures;
use super::driver::Driver;
use super::kept;
use super::streams::{self, Unknown};
use gpucache_engine::Result;
use gpucache_engine::cache::{Block, Current, Entry};
use gpucache_engine::device::{Handle, Stream, process_exits};
use gpucache_engine::home::Counter;
use gpucache_engine::record::Request;

/// The answer to an allocation.
pub(super) enum Answer {
    Served(u64),
    /// The driver has to answer it.
    PassOn,
    /// The device has no memory, even after all idle memory was freed.
    Exhausted,
}

/// Serves the next planned allocation of the innermost scope on the stream of a handle, if this request is that allocation.
#[inline]
pub(super) fn allocate_planned(bytes: usize, handle: Handle) -> Option<u64> {
    let entry = Entry::serving().filter(|_| bytes > 0 && !Handle::is_own_call())?;
    let serve = |stream: &Stream| Block::planned(stream, &[bytes], bytes);
    let block = streams::with_known(handle, entry, serve)??;
    let address = block.keep_by_address().ok()?;
    Current::note_foreign(Counter::ForeignServed);
    Some(address)
}

/// Serves memory of the innermost scope on the stream of a handle.
pub(super) fn allocate(bytes: usize, handle: Handle) -> Answer {
    let Some(entry) = Entry::serving().filter(|_| bytes > 0 && !Handle::is_own_call()) else { return Answer::PassOn };
    if let Some(captured) = captures::of(handle) {
        let answer = answered(put(captured.allocate(&Request::of_bytes(&[bytes]))));
        if let Answer::Served(_) = answer {
            Current::note_foreign(Counter::ForeignCaptured);
        }
        return answer;
    }
    match streams::with(handle, entry, |stream| take(stream, bytes)) {
        Ok(Err(error)) if error.is_unavailable() => {
            // A graph is captured on the stream, and the beginning of the capture was not seen.
            streams::note_capture(handle);
            passed_on()
        }
        Ok(taken) => answered(taken),
        Err(_) => passed_on(),
    }
}

fn answered(taken: Result<Option<u64>>) -> Answer {
    match taken {
        Ok(Some(address)) => {
            Current::note_foreign(Counter::ForeignServed);
            Answer::Served(address)
        }
        Err(error) if error.is_shortage() => Answer::Exhausted,
        Ok(None) | Err(_) => passed_on(),
    }
}

/// Serves memory of the innermost scope that any stream may use at once.
pub(super) fn allocate_for_host(bytes: usize) -> Answer {
    if bytes == 0 || Entry::serving().is_none() || Handle::is_own_call() {
        return Answer::PassOn;
    }
    let Some(stream) = Handle::host_ordered() else { return passed_on() };
    // The range may have put the stream behind others, in this call or in another thread's. The host has to wait for them too.
    match take(&stream, bytes) {
        Ok(Some(address)) if stream.synchronize().is_err() => {
            // The caller does not get the block, so it would never free it.
            drop(Block::take_at(address));
            passed_on()
        }
        taken => answered(taken),
    }
}

fn passed_on() -> Answer {
    Current::note_foreign(Counter::ForeignPassedOn);
    Answer::PassOn
}

/// A block of the scope, noted under its address; `None` if that address has no place in the table.
fn take(stream: &Stream, bytes: usize) -> Result<Option<u64>> {
    put(Block::allocate(stream, &Request::of_bytes(&[bytes])))
}

fn put(block: Result<Block>) -> Result<Option<u64>> {
    Ok(block?.keep_by_address().ok())
}

/// Repeats a call of the driver that found no memory, after all idle memory was freed. Returns whether it succeeded.
#[cold]
pub(super) fn retry(bytes: usize, handle: Handle, succeeds: impl Fn() -> bool) -> bool {
    let again = |stream: &Stream| stream.retry_call(bytes, &succeeds);
    !Handle::is_own_call() && streams::with(handle, Entry::now(), again).is_ok_and(|has_succeeded| has_succeeded)
}

/// Drops a block that [`allocate`] served, if only work of its own stream may use it. Otherwise returns the block.
#[inline]
pub(super) fn free_here(block: Block, handle: Handle) -> Option<Block> {
    if process_exits() {
        std::mem::forget(block);
        return None;
    }
    let is_own = streams::with_known(handle, Entry::now(), |stream| stream.id() == block.stream().id());
    if is_own != Some(true) {
        return Some(block);
    }
    Handle::keeping_current(|| drop(block));
    None
}

/// Takes a block back that work on the stream of this handle may use, if that is not the block's own stream.
pub(super) fn free_elsewhere(block: Block, handle: Handle) {
    if let Some(captured) = captures::of(handle) {
        return captured.take_back(block);
    }
    match streams::with(handle, Entry::now(), |stream| note_use(&block, stream)) {
        Ok(Ok(())) => {}
        // The thread waits for work that cannot be ordered: the work of both contexts, and of the stream, which may belong to a third one.
        Ok(Err(_)) | Err(Unknown::Context) => wait_for_all(&block, handle),
        Err(Unknown::Captured) => {}
    }
    drop(block);
}

fn note_use(block: &Block, stream: &Stream) -> Result<()> {
    // Memory that the stream got in a capture is freed behind its work like any other. Only the graph uses it again.
    if stream.id() == block.stream().id() || block.stream().is_reserved_on(stream) {
        return Ok(());
    }
    block.note_freed_elsewhere();
    let is_host_ordered = || Handle::host_ordered().is_some_and(|host| host.id() == block.stream().id());
    // Streams of two devices share no events. And whoever gets memory for the host next waits for nobody.
    if stream.memory_id() != block.stream().memory_id() || is_host_ordered() {
        return stream.synchronize();
    }
    block.used_by(stream);
    Ok(())
}

/// Takes memory back like the driver's function without a stream: first waits until no work of the current context can use it.
/// Returns whether the memory was served here.
pub(super) fn free_for_host(address: u64) -> bool {
    let Some(block) = Block::take_at(address) else { return false };
    if process_exits() {
        std::mem::forget(block);
    } else if Stream::is_any_in_capture() {
        kept::keep(block);
    } else {
        wait_for_all(&block, Handle(0));
        drop(block);
        kept::free();
    }
    true
}

/// Waits for the work of the current context, of the stream of a handle, and of the block's own context. A failure
/// belongs to a context, whose work is lost with it.
fn wait_for_all(block: &Block, handle: Handle) {
    if let Some(driver) = Driver::get() {
        driver.synchronize(handle);
    }
    Handle::wait_for_context_of(block.stream());
}
