//! Memory of the process as the host's streams use it: what is done with it once it is its turn.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::{copy_nonoverlapping, with_exposed_provenance, with_exposed_provenance_mut};

#[cfg(target_os = "linux")]
use super::budget;
use crate::base::error::{Error, Result};
use crate::device::{Backend, Memory};

/// The alignment of every block, as on CUDA devices.
const ALIGNMENT: usize = 256;

/// The stream whose work is done when a call returns.
#[derive(Debug)]
pub(super) struct HostMemory;

/// Pages where the system manages them as this crate knows how, chunks of the global allocator elsewhere.
pub(super) fn memory() -> Memory {
    #[cfg(target_os = "linux")]
    return Memory::with_pages(super::pages::HostPages);
    #[cfg(not(target_os = "linux"))]
    return Memory::with_chunks();
}

fn layout(bytes: usize) -> Result<Layout> {
    Layout::from_size_align(bytes, ALIGNMENT).map_err(|error| Error::out_of_memory("the host", bytes, error))
}

/// Asks whether the machine has as much, for what is large: small allocations must cost nothing more.
#[cfg(target_os = "linux")]
fn take(bytes: usize) -> Result<()> {
    if bytes as u64 >= budget::SLICE { budget::take(bytes as u64) } else { Ok(()) }
}

#[cfg(target_os = "linux")]
fn give_back(bytes: usize) {
    if bytes as u64 >= budget::SLICE {
        budget::give_back(bytes as u64);
    }
}

/// Elsewhere the system refuses what it cannot give.
#[cfg(not(target_os = "linux"))]
fn take(_: usize) -> Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn give_back(_: usize) {}

// SAFETY: memory comes from the global allocator, which hands nothing out twice, and is freed by `free` alone. All work
// is done when a call returns, so that the default events hold.
unsafe impl Backend for HostMemory {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        let layout = layout(bytes)?;
        take(bytes)?;
        // SAFETY: the engine never asks for zero bytes, so the layout's size is not zero.
        let memory = unsafe { alloc(layout) };
        match memory.is_null() {
            true => {
                give_back(bytes);
                Err(Error::out_of_memory("the host", bytes, "the global allocator refused"))
            }
            false => Ok(memory.expose_provenance() as u64),
        }
    }

    unsafe fn free(&self, address: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller frees what `allocate(bytes)` gave, once, so pointer and layout are those of `alloc`.
        unsafe { dealloc(pointer_mut(address), layout(bytes)?) };
        give_back(bytes);
        Ok(())
    }

    unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()> {
        let memory = pointer_mut(address);
        if let [byte] = *pattern {
            // SAFETY: the caller gives `bytes` allocated bytes at `address`.
            unsafe { memory.write_bytes(byte, bytes) };
            return Ok(());
        }
        let mut done = pattern.len().min(bytes);
        // SAFETY: `done <= pattern.len()` and `done <= bytes`; a borrowed pattern does not overlap a block that is
        // being filled.
        unsafe { copy_nonoverlapping(pattern.as_ptr(), memory, done) };
        while done < bytes && done > 0 {
            let more = done.min(bytes - done);
            // SAFETY: `[0, done)` was written, and `[done, done + more)` lies behind it and within `bytes`.
            unsafe { copy_nonoverlapping(memory, memory.add(done), more) };
            done += more;
        }
        Ok(())
    }

    unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller gives readable memory at `from` and a block at `to`, which safe code cannot borrow as well.
        unsafe { copy_nonoverlapping(from, pointer_mut(to), bytes) };
        Ok(())
    }

    unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller gives a block at `from` and writable memory at `to`, distinct from it.
        unsafe { copy_nonoverlapping(with_exposed_provenance(from as usize), to, bytes) };
        Ok(())
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller gives two blocks that do not overlap.
        unsafe { copy_nonoverlapping(with_exposed_provenance::<u8>(from as usize), pointer_mut(to), bytes) };
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
}

/// The pointer of a block, whose provenance `allocate` exposed.
fn pointer_mut(address: u64) -> *mut u8 {
    with_exposed_provenance_mut(address as usize)
}
