//! Host memory that the driver allocated. Streams read and write it late, when they reach the work.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::Mutex;

use crate::answer::{Answer, Out, Status, answer, lock};
use crate::{capture, context, streams};

const PAGE: usize = 4096;

/// The bytes of each allocation, by address.
static PINNED: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

/// Whether an address lies in memory of this kind.
pub(crate) fn holds(address: u64) -> bool {
    let pinned = lock(&PINNED);
    let before = pinned.range(..=address).next_back();
    before.is_some_and(|(start, bytes)| address - start < *bytes as u64)
}

/// Whether the driver pins memory: `MADEUP_PINNED` is not 0.
fn may_pin() -> bool {
    std::env::var("MADEUP_PINNED").is_ok_and(|text| text == "0").eq(&false)
}

fn layout(bytes: usize) -> Answer<Layout> {
    if bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    Layout::from_size_align(bytes, PAGE).map_err(|_| Status::OUT_OF_MEMORY)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemHostAlloc(address: Out<*mut u8>, bytes: usize, _flags: c_uint) -> Status {
    answer("cuMemHostAlloc", || {
        context::require()?;
        capture::forbid_unsafe()?;
        if !may_pin() {
            return Err(Status::OUT_OF_MEMORY);
        }
        // SAFETY: the layout has bytes.
        let memory = unsafe { alloc_zeroed(layout(bytes)?) };
        if memory.is_null() {
            return Err(Status::OUT_OF_MEMORY);
        }
        lock(&PINNED).insert(memory as u64, bytes);
        address.put(memory)
    })
}

/// Waits for all work, since any of it may use the memory.
///
/// # Safety
/// Only work of streams uses the memory.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemFreeHost(address: *mut u8) -> Status {
    answer("cuMemFreeHost", || {
        context::require()?;
        capture::forbid_unsafe()?;
        let bytes = lock(&PINNED).remove(&(address as u64)).ok_or(Status::INVALID_VALUE)?;
        streams::synchronize();
        // SAFETY: the memory was allocated with this layout. It is freed once, since its entry is removed. All work was waited for,
        // and the caller promises that nobody else uses it.
        unsafe { dealloc(address, layout(bytes)?) };
        Ok(())
    })
}
