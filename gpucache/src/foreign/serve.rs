//! What is served, what is passed on to the driver, and how a free is ordered.
//!
//! Served is what a thread allocates inside a scope that keeps memory, on a stream of a device's own context that is not captured. Its
//! memory goes back to the scope in the order of the stream that it was allocated on; who frees it on another one says that his
//! stream's work so far may use it, and the memory's next life waits for both.

use std::any::TypeId;

use super::addresses;
use super::driver::Driver;
use super::streams::{self, Unknown};
use crate::device::Stream;
use gpucache_engine::cache::{Block, Current, Entry};
use gpucache_engine::device::{Handle, process_exits};
use gpucache_engine::pressure::retry_call;
use gpucache_engine::record::Request;
use gpucache_engine::{Error, Result};

/// What becomes of a request.
pub(super) enum Answer {
    Served(u64),
    /// It is the driver's to answer.
    PassOn,
    /// The device has no memory, whatever was given back.
    Exhausted,
}

/// The dtype of what other crates allocate: bytes.
struct Bytes;

/// What becomes of memory that is freed.
pub(super) enum Freed {
    Done,
    /// It was served, and is freed on another stream than its own, or one that is not known.
    Elsewhere(Block),
    /// It is none of ours.
    Unknown,
}

/// What the plan of the innermost scope expects next on the stream that a handle means, if this is it.
#[inline]
pub(super) fn allocate_planned(bytes: usize, handle: Handle) -> Option<u64> {
    let entry = Entry::serving().filter(|_| bytes > 0 && !Handle::is_own_call())?;
    let serve = |stream: &Stream| Block::planned(stream, &[bytes], bytes);
    let block = streams::with_known(handle, entry, serve)??;
    let address = addresses::put(block).ok()?;
    Current::note_foreign(true);
    Some(address)
}

/// Memory of the innermost scope on the stream that a handle means.
pub(super) fn allocate(bytes: usize, handle: Handle) -> Answer {
    let Some(entry) = Entry::serving().filter(|_| bytes > 0 && !Handle::is_own_call()) else { return Answer::PassOn };
    match streams::with(handle, entry, |stream| take(stream, bytes)) {
        Ok(Ok(Some(address))) => {
            Current::note_foreign(true);
            Answer::Served(address)
        }
        Ok(Err(error)) => refused(&error, handle),
        Ok(Ok(None)) | Err(_) => passed_on(),
    }
}

/// Memory of the innermost scope that any stream may use at once.
pub(super) fn allocate_for_host(bytes: usize) -> Answer {
    if bytes == 0 || Entry::serving().is_none() || Handle::is_own_call() {
        return Answer::PassOn;
    }
    let Some(stream) = Handle::host_ordered() else { return passed_on() };
    // The range may have put the stream behind others, in this call or in another one's: the host is to be behind them too.
    match take(&stream, bytes) {
        Ok(Some(address)) if stream.synchronize().is_ok() => {
            Current::note_foreign(true);
            Answer::Served(address)
        }
        Ok(Some(address)) => {
            // Nobody has it, and so nobody would give it back.
            drop(addresses::take(address));
            passed_on()
        }
        Err(error) if error.is_out_of_memory() => Answer::Exhausted,
        Ok(None) | Err(_) => passed_on(),
    }
}

fn passed_on() -> Answer {
    Current::note_foreign(false);
    Answer::PassOn
}

/// A block of the scope, noted under its address; `None` if that has no place.
fn take(stream: &Stream, bytes: usize) -> Result<Option<u64>> {
    let request = Request { dtype: TypeId::of::<Bytes>(), type_name: "bytes", dims: &[bytes], bytes, site: None };
    Ok(addresses::put(Block::allocate(stream, &request)?).ok())
}

#[cold]
fn refused(error: &Error, handle: Handle) -> Answer {
    if error.is_out_of_memory() {
        return Answer::Exhausted;
    }
    if error.is_unavailable() {
        // A graph is captured on the stream: its allocations are the graph's own.
        streams::note_capture(handle);
    }
    passed_on()
}

/// Makes a call of the driver that found no memory again, once everything idle went back to it. Whether it has succeeded then.
#[cold]
pub(super) fn retry(bytes: usize, handle: Handle, succeeds: impl Fn() -> bool) -> bool {
    let again = |stream: &Stream| retry_call(stream, bytes, &succeeds);
    !Handle::is_own_call() && streams::with(handle, Entry::now(), again).is_ok_and(|has_succeeded| has_succeeded)
}

/// Takes memory back that [`allocate`] served, if work of its own stream alone may use it.
#[inline]
pub(super) fn take_back(address: u64, handle: Handle) -> Freed {
    let Some(block) = addresses::take(address) else { return Freed::Unknown };
    if process_exits() {
        std::mem::forget(block);
        return Freed::Done;
    }
    match streams::with_known(handle, Entry::now(), |stream| stream.id() == block.stream().id()) {
        Some(true) => {
            Handle::keeping_current(|| drop(block));
            Freed::Done
        }
        _ => Freed::Elsewhere(block),
    }
}

/// Takes a block back which work of the stream may use that the handle means, if that is another one than its own.
pub(super) fn free_elsewhere(block: Block, handle: Handle) {
    match streams::with(handle, Entry::now(), |stream| note_use(&block, stream)) {
        Ok(Ok(())) => {}
        // What cannot be ordered is waited for: the work of both contexts, and of the stream, if that is of another one.
        Ok(Err(_)) | Err(Unknown::Context | Unknown::ThreadEnds) => wait_for_all(&block, handle),
        Err(Unknown::Captured) => {}
    }
    drop(block);
}

fn note_use(block: &Block, stream: &Stream) -> Result<()> {
    if stream.id() == block.stream().id() {
        return Ok(());
    }
    block.note_freed_elsewhere();
    let is_host_ordered = || Handle::host_ordered().is_some_and(|host| host.id() == block.stream().id());
    // Streams of two devices have no events in common; and whoever gets the host's memory waits for nobody.
    if stream.memory_id() != block.stream().memory_id() || is_host_ordered() {
        return stream.synchronize();
    }
    block.used_by(stream);
    Ok(())
}

/// Takes memory back of which no work of the context that is current will be under way any more: waits for it, as the driver does.
/// Whether it was served.
pub(super) fn free_for_host(address: u64) -> bool {
    let Some(block) = addresses::take(address) else { return false };
    if process_exits() {
        std::mem::forget(block);
    } else {
        wait_for_all(&block, Handle(0));
        drop(block);
    }
    true
}

/// Waits for the work of the context that is current, of the stream that a handle means, and of the block's own context. A failure
/// is that of a context, whose work is lost with it.
fn wait_for_all(block: &Block, handle: Handle) {
    if let Some(driver) = Driver::get() {
        driver.synchronize(handle);
    }
    Handle::wait_for_context_of(block.stream());
}
