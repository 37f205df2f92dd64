// A device over the standard library's allocator, whose work is done when a call returns.
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::{copy_nonoverlapping, with_exposed_provenance, with_exposed_provenance_mut};

use gpucache::device::{Device, backend::{Backend, Memory, Stream}};
use gpucache::{Error, Result};

#[derive(Debug)]
pub struct Plain;

fn layout(bytes: usize) -> Result<Layout> {
    Layout::from_size_align(bytes, 256).map_err(|error| Error::out_of_memory("plain", bytes, error))
}

// SAFETY: the allocator's memory is the process's own, and nobody else's until it is freed. No event has work to wait for.
unsafe impl Backend for Plain {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        // SAFETY: no size is zero.
        let memory = unsafe { alloc(layout(bytes)?) };
        match memory.is_null() {
            true => Err(Error::out_of_memory("plain", bytes, "the allocator has none")),
            false => Ok(memory.expose_provenance() as u64),
        }
    }

    unsafe fn free(&self, address: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller promises that `allocate` gave the address for as many bytes.
        unsafe { dealloc(with_exposed_provenance_mut(address as usize), layout(bytes)?) };
        Ok(())
    }

    unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()> {
        let to: *mut u8 = with_exposed_provenance_mut(address as usize);
        for start in (0..bytes).step_by(pattern.len()) {
            // SAFETY: the caller promises that `bytes`, a multiple of the pattern's length, are allocated.
            unsafe { copy_nonoverlapping(pattern.as_ptr(), to.add(start), pattern.len()) };
        }
        Ok(())
    }

    unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller promises that `bytes` are readable at `from` and allocated at `to`.
        unsafe { copy_nonoverlapping(from, with_exposed_provenance_mut(to as usize), bytes) };
        Ok(())
    }

    unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller promises that `bytes` are allocated at `from` and writable at `to`.
        unsafe { copy_nonoverlapping(with_exposed_provenance(from as usize), to, bytes) };
        Ok(())
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        let to: *mut u8 = with_exposed_provenance_mut(to as usize);
        // SAFETY: the caller promises that `bytes` are allocated at both addresses, and do not overlap.
        unsafe { copy_nonoverlapping(with_exposed_provenance(from as usize), to, bytes) };
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
}

/// The device's handle.
#[derive(Clone, Debug)]
#[repr(transparent)]
pub struct Desk(Stream);

impl Desk {
    pub fn new() -> Desk {
        // SAFETY: this memory maps nothing, and no other stream shares it.
        Desk(unsafe { Stream::new(Memory::default().into(), Plain) })
    }
}

// SAFETY: a transparent struct around the stream that it gives out.
unsafe impl Device for Desk {
    fn stream_handle(&self) -> &Stream {
        &self.0
    }
}
