//! Pinned memory of the host, which a GPU copies to and from by itself, in the order of a queue for copies.

use std::sync::Arc;

use cudarc::driver::sys;

use super::driver;
use super::errors::describe;
use super::memory::CudaMemory;
use crate::base::error::{Error, Result};
use crate::device::backend::Backend;
use crate::device::event::Event;

/// The host's side of a queue for copies.
#[derive(Debug)]
pub(super) struct Pinned(CudaMemory);

impl Pinned {
    /// Over the queue of this one.
    pub(super) fn new(queue: CudaMemory) -> Pinned {
        Pinned(queue)
    }
}

// SAFETY: memory comes from the driver, which hands nothing out twice before it is freed, and is freed by `free` alone, once the
// queue's work is done. Whatever is ordered is so by the queue of a `CudaMemory`, which holds for it.
unsafe impl Backend for Pinned {
    /// Takes 400 ms for a GiB, so that it is asked for in large pieces, which are kept.
    fn allocate(&self, bytes: usize) -> Result<u64> {
        driver::bind(self.0.context()).map_err(|error| self.0.failure("pinning memory of the host", error))?;
        let mut memory = std::ptr::null_mut();
        // SAFETY: the call writes one pointer, which is valid for that, and a context is current.
        let pinned = unsafe { sys::cuMemHostAlloc(&mut memory, bytes, sys::CU_MEMHOSTALLOC_PORTABLE) }.result();
        match pinned {
            Ok(()) => Ok(memory.expose_provenance() as u64),
            Err(error) => Err(Error::out_of_memory("the host's pinned memory", bytes, describe(error))),
        }
    }

    unsafe fn free(&self, address: u64, _bytes: usize) -> Result<()> {
        self.0.synchronize()?;
        // SAFETY: the caller frees what `allocate` gave, once; no work uses it any more, as all of the queue's is done.
        unsafe { sys::cuMemFreeHost(std::ptr::with_exposed_provenance_mut(address as usize)) }
            .result()
            .map_err(|error| self.0.failure("freeing pinned memory of the host", error))
    }

    unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()> {
        // SAFETY: the caller's promise, of memory that the device reaches at the same address.
        unsafe { self.0.fill(address, bytes, pattern) }
    }

    unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise, of memory that the device reaches at the same address.
        unsafe { self.0.write(from, to, bytes) }
    }

    unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise, of memory that the device reaches at the same address.
        unsafe { self.0.read(from, to, bytes) }
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise, of memory that the device reaches at the same address.
        unsafe { self.0.copy(from, to, bytes) }
    }

    fn synchronize(&self) -> Result<()> {
        self.0.synchronize()
    }

    fn new_event(&self) -> Result<Arc<dyn Event>> {
        self.0.new_event()
    }

    fn record(&self, event: &dyn Event) -> Result<()> {
        self.0.record(event)
    }

    fn wait(&self, event: &dyn Event) -> Result<()> {
        self.0.wait(event)
    }

    fn can_capture(&self) -> bool {
        self.0.can_capture()
    }

    fn is_capturing(&self) -> bool {
        self.0.is_capturing()
    }

    fn kept_failure(&self) -> Result<()> {
        self.0.kept_failure()
    }
}
