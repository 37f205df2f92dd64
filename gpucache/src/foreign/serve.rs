//! What is served, what is passed on to the driver, and how a free is ordered.
//!
//! Served is what a thread allocates inside a scope that keeps memory, on a stream of a device's own context that is not captured. Its
//! memory goes back to the scope in the order of the stream that it was allocated on; who frees it on another one says that his
//! stream's work so far may use it, and the memory's next life waits for both.

use std::any::TypeId;

use super::addresses;
use super::driver::Driver;
use super::streams::{self, Unknown};
use crate::base::error::{Error, Result};
use crate::cache::Block;
use crate::cache::current;
use crate::device::{Handle, Stream, host_ordered, is_own_call, process_exits};
use crate::pressure::shortage::insist;
use crate::record::Request;

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

/// Memory of the innermost scope on the stream that a handle means.
#[inline]
pub(super) fn allocate(bytes: usize, handle: Handle) -> Answer {
    let Some(entry) = current::serving().filter(|_| bytes > 0 && !is_own_call()) else { return Answer::PassOn };
    match streams::with(handle, entry, |stream| take(stream, bytes)) {
        Ok(Ok(Some(address))) => {
            current::note_foreign(|foreign| foreign.served());
            Answer::Served(address)
        }
        Ok(Err(error)) => refused(&error, handle),
        Ok(Ok(None)) | Err(_) => passed_on(),
    }
}

/// Memory of the innermost scope that any stream may use at once.
pub(super) fn allocate_for_host(bytes: usize) -> Answer {
    if bytes == 0 || current::serving().is_none() || is_own_call() {
        return Answer::PassOn;
    }
    let Some(stream) = host_ordered() else { return passed_on() };
    let waits = stream.meter().waits();
    let taken = take(&stream, bytes).and_then(|address| {
        // The range put the stream behind another one: the host is to be behind that too.
        if stream.meter().waits() > waits { stream.synchronize().map(|()| address) } else { Ok(address) }
    });
    match taken {
        Ok(Some(address)) => {
            current::note_foreign(|foreign| foreign.served());
            Answer::Served(address)
        }
        Err(error) if error.is_out_of_memory() => Answer::Exhausted,
        Ok(None) | Err(_) => passed_on(),
    }
}

fn passed_on() -> Answer {
    current::note_foreign(|foreign| foreign.passed_on());
    Answer::PassOn
}

/// A block of the scope, noted under its address; `None` if that has no place.
#[inline]
fn take(stream: &Stream, bytes: usize) -> Result<Option<u64>> {
    let dims = [bytes];
    let block = match current::serve_planned(stream, &dims, bytes) {
        Some(record) => Block::of(record),
        None => Block::allocate(stream, &Request { dtype: TypeId::of::<Bytes>(), dims: &dims, bytes })?,
    };
    Ok(addresses::put(block).ok())
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
    let short = || Error::out_of_memory("the driver's pool", bytes, "no memory is left");
    let again = |stream: &Stream| insist(stream, bytes as u64, 0, |_| if succeeds() { Ok(()) } else { Err(short()) });
    let is_ours = is_own_call();
    !is_ours && streams::with(handle, current::entry(), again).is_ok_and(|answer| answer.is_ok())
}

/// Takes memory back that [`allocate`] served, which work of the stream may use that the handle means. Whether it was served.
#[inline]
pub(super) fn free(address: u64, handle: Handle) -> bool {
    let Some(block) = addresses::take(address) else { return false };
    if process_exits() {
        std::mem::forget(block);
        return true;
    }
    match streams::with(handle, current::entry(), |stream| is_plain(&block, stream)) {
        Ok(true) => drop(block),
        Ok(false) => free_elsewhere(block, handle),
        Err(why) => free_unknown(block, &why),
    }
    true
}

/// Whether nothing is to be said of the stream that a block is freed on: it is the block's own.
#[inline]
fn is_plain(block: &Block, stream: &Stream) -> bool {
    block.stream().id() == stream.id()
}

/// A block is freed on another stream than its own.
#[cold]
fn free_elsewhere(block: Block, handle: Handle) {
    block.note_freed_elsewhere();
    let is_host_ordered = || host_ordered().is_some_and(|host| host.id() == block.stream().id());
    let noted = streams::with(handle, current::entry(), |stream| {
        // Streams of two devices have no events in common; and whoever gets the host's memory waits for nobody.
        if stream.memory_id() != block.stream().memory_id() || is_host_ordered() {
            stream.synchronize()
        } else {
            block.used_by(stream);
            Ok(())
        }
    });
    if !matches!(noted, Ok(Ok(()))) {
        wait_for_context();
    }
    drop(block);
}

/// A block is freed on a stream that cannot be told.
#[cold]
fn free_unknown(block: Block, why: &Unknown) {
    block.note_freed_elsewhere();
    // A thread without a context has no work that could use it. Of a thread that ends, or a context of its own, nothing is known.
    let has_context = Driver::get().is_some_and(|driver| driver.current_context() != 0);
    if has_context && !matches!(why, Unknown::Captured) {
        wait_for_context();
    }
    drop(block);
}

/// Takes memory back of which no work of the context that is current will be under way any more: waits for it, as the driver does.
/// Whether it was served.
pub(super) fn free_for_host(address: u64) -> bool {
    let Some(block) = addresses::take(address) else { return false };
    if process_exits() {
        std::mem::forget(block);
    } else {
        wait_for_context();
        drop(block);
    }
    true
}

fn wait_for_context() {
    // A failure is the context's, whose work is lost with it.
    let _ = Driver::get().map(Driver::synchronize);
}
