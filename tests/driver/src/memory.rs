//! Allocations and frees, in the order of a stream and without a stream.
//!
//! The status of a free is returned at once. Memory that is freed on a stream is poisoned, and available to others, when the stream
//! reaches the free.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::answer::{Answer, Out, Status, answer};
use crate::arena::{self, Freed};
use crate::work::Work;
use crate::{capture, context, raw, streams};

/// The contents of new memory, and below, of freed memory.
pub(crate) const GARBAGE: u8 = 0xA5;
const POISON: u8 = 0xDD;

/// Whether a request that finds no memory waits for work that may free some: `MADEUP_PATIENCE` is not 0.
fn is_patient() -> bool {
    static PATIENCE: OnceLock<bool> = OnceLock::new();
    *PATIENCE.get_or_init(|| std::env::var("MADEUP_PATIENCE").is_ok_and(|text| text == "0").eq(&false))
}

/// If memory is short, frees that are on their way may help.
pub(crate) fn when_short<T>(request: impl Fn() -> Answer<T>) -> Answer<T> {
    request().or_else(|status| {
        if status != Status::OUT_OF_MEMORY || !is_patient() {
            return Err(status);
        }
        streams::synchronize();
        request()
    })
}

fn release(freed: Freed) {
    // SAFETY: the memory of a freed allocation stays until it is given back below.
    unsafe { raw::fill(freed.address, &[POISON], freed.bytes as usize) };
    // Memory that cannot be given back is lost, and its bytes stay counted.
    let _ = arena::give_back(freed);
}

/// The addresses of allocations in graphs begin here. Programs and their memory lie above. Nothing lies there, as such graphs are not
/// launched.
const CAPTURED: u64 = 0x10_0000_0000;

/// The next of these addresses.
static NEXT: AtomicU64 = AtomicU64::new(CAPTURED);

/// An address for `bytes` bytes; 0 for 0 bytes.
fn allocate_on(stream: usize, bytes: usize) -> Answer<u64> {
    let found = streams::find(stream)?;
    if bytes == 0 {
        return Ok(0);
    }
    let is_captured = capture::status(&found)?.1.is_some();
    if is_captured && bytes as u64 > arena::capacity() {
        return Err(Status::OUT_OF_MEMORY);
    }
    if capture::record(&found, &Work::Allocate)? {
        return Ok(NEXT.fetch_add((bytes as u64).next_multiple_of(512), Ordering::SeqCst));
    }
    capture::forbid_unsafe()?;
    let (address, bytes) = when_short(|| arena::allocate(bytes as u64))?;
    // SAFETY: nobody frees the memory before the address is known. A later free comes behind this work, or waits for it.
    streams::submit(stream, move || unsafe { raw::fill(address, &[GARBAGE], bytes as usize) })?;
    Ok(address)
}

pub(crate) fn allocate_in_order(address: &Out<u64>, bytes: usize, stream: usize) -> Answer {
    if !crate::device::has_pools() {
        return Err(Status::NOT_SUPPORTED);
    }
    address.put(allocate_on(stream, bytes)?)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAllocAsync(address: Out<u64>, bytes: usize, stream: usize) -> Status {
    answer("cuMemAllocAsync", || allocate_in_order(&address, bytes, stream))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemFreeAsync(address: u64, stream: usize) -> Status {
    answer("cuMemFreeAsync", || {
        let found = streams::find(stream)?;
        if address == 0 {
            return Ok(());
        }
        if (CAPTURED..NEXT.load(Ordering::SeqCst)).contains(&address) && capture::record(&found, &Work::Free)? {
            return Ok(());
        }
        // A capture cannot free other memory. It goes on.
        if capture::status(&found)?.1.is_some() {
            return Err(Status::INVALID_VALUE);
        }
        capture::forbid_unsafe()?;
        let freed = arena::retire(address)?;
        streams::submit(stream, move || release(freed)).map(drop)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAlloc_v2(address: Out<u64>, bytes: usize) -> Status {
    answer("cuMemAlloc_v2", || {
        context::require()?;
        capture::forbid_unsafe()?;
        if bytes == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let (start, bytes) = when_short(|| arena::allocate(bytes as u64))?;
        // SAFETY: nobody knows the address yet, so nobody frees the memory.
        unsafe { raw::fill(start, &[GARBAGE], bytes as usize) };
        address.put(start)
    })
}

/// Waits for all work, since any of it may use the memory.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemFree_v2(address: u64) -> Status {
    answer("cuMemFree_v2", || {
        context::require()?;
        capture::forbid_unsafe()?;
        if address == 0 {
            return Ok(());
        }
        let freed = arena::retire(address)?;
        streams::synchronize();
        release(freed);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) -> Status {
    answer("cuMemGetInfo_v2", || {
        context::require()?;
        free.put_if_wanted(arena::free() as usize);
        total.put_if_wanted(arena::capacity() as usize);
        Ok(())
    })
}
