//! Memory of the process, and the operations that the host's streams do on it.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::mem::MaybeUninit;
use std::ptr::{copy_nonoverlapping, with_exposed_provenance_mut};
use std::slice::from_raw_parts_mut;
use std::sync::Arc;

use super::budget;
use crate::base::error::{Error, Result};
use crate::device::mark::Moment;
use crate::device::{ALIGNMENT, Backend, Copies, Mark, Memory};

/// The backend of the default stream, whose work is done when a call returns.
#[derive(Debug)]
pub(in crate::device) struct HostMemory;

/// Pages on Linux. On other systems, chunks of the global allocator.
pub(super) fn memory() -> Memory {
    #[cfg(target_os = "linux")]
    return Memory::of_machine(Some(Arc::new(super::pages::HostPages)));
    #[cfg(not(target_os = "linux"))]
    return Memory::of_machine(None);
}

fn layout(bytes: usize) -> Result<Layout> {
    Layout::from_size_align(bytes, ALIGNMENT as usize).map_err(|error| Error::out_of_memory("the host", bytes, error))
}

/// Whether an allocation counts against the machine's memory: large ones only, so that small ones cost no more. Only Linux grants memory that
/// the machine does not have.
fn is_counted(bytes: usize) -> bool {
    cfg!(target_os = "linux") && bytes as u64 >= budget::SLICE
}

fn take(bytes: usize) -> Result<()> {
    if is_counted(bytes) { budget::take(bytes as u64) } else { Ok(()) }
}

fn give_back(bytes: usize) {
    if is_counted(bytes) {
        budget::give_back(bytes as u64);
    }
}

// SAFETY: memory comes from the global allocator, which hands out no memory twice, and only `free` frees it. All work is done when a call
// returns, so the default events are correct.
unsafe impl Backend for HostMemory {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        let layout = layout(bytes)?;
        take(bytes)?;
        // SAFETY: the layout's size is not zero, since the engine asks no backend for zero bytes.
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
        // SAFETY: the caller frees memory of `allocate(bytes)`, once and when no work uses it. So pointer and layout are those of `alloc`.
        unsafe { dealloc(pointer_mut(address), layout(bytes)?) };
        give_back(bytes);
        Ok(())
    }

    unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()> {
        // SAFETY: the caller promises `bytes` allocated bytes at `address` that nothing else touches before this is done. They are memory
        // of the process whose provenance is exposed. As `MaybeUninit` they need not be initialised.
        let memory = unsafe { from_raw_parts_mut(pointer_mut(address).cast(), bytes) };
        repeat(pattern, memory);
        Ok(())
    }

    unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        transfer(from, pointer_mut(to), bytes);
        Ok(())
    }

    unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        transfer(pointer_mut(from), to, bytes);
        Ok(())
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        transfer(pointer_mut(from), pointer_mut(to), bytes);
        Ok(())
    }

    fn copies(&self) -> Result<Option<Copies>> {
        Ok(Some(Copies { device: Arc::new(HostMemory), host: Arc::new(HostMemory) }))
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn mark(&self) -> Result<Option<Box<dyn Mark>>> {
        let moment = Moment::default();
        moment.reach();
        Ok(Some(Box::new(moment)))
    }
}

/// Copies bytes now.
///
/// Invariant: `bytes` are readable at `from` and writable at `to`, both in memory of the process. They do not overlap. Nothing else writes
/// the source or touches the destination before the copy is done. The callers of `write`, `read` and `copy` promise this, and only these
/// three methods call this function.
fn transfer(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the invariant provides readable and writable bytes that do not overlap, and bytes need no alignment. The provenance of a
    // block was exposed when it was allocated or its addresses were reserved, so the pointer made of its address may reach all of it.
    // The caller's own memory is passed as a pointer. That memory is borrowed, so it is not part of a block that may be written.
    unsafe { copy_nonoverlapping(from, to, bytes) };
}

/// Fills `memory` by repeating `pattern`. Each step doubles the part that is written, so most of the work is long copies.
fn repeat(pattern: &[u8], memory: &mut [MaybeUninit<u8>]) {
    if let [byte] = *pattern {
        return memory.fill(MaybeUninit::new(byte));
    }
    let mut done = pattern.len().min(memory.len());
    for (byte, value) in memory.iter_mut().zip(pattern) {
        byte.write(*value);
    }
    while done < memory.len() && done > 0 {
        let more = done.min(memory.len() - done);
        memory.copy_within(..more, done);
        done += more;
    }
}

/// The pointer to a block. Its provenance was exposed when the block was allocated or its addresses were reserved.
fn pointer_mut(address: u64) -> *mut u8 {
    with_exposed_provenance_mut(address as usize)
}
