//! Pinned host memory, which a GPU copies from and to by itself, in the order of a queue for copies.
//!
//! If the driver cannot pin more memory, pageable memory is used. The driver copies pageable memory through a buffer of its own, and the
//! thread that requests the copy waits. Data that was copied out is then complete, so a copy back may read it at once, whatever the queue
//! waits for.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::driver::{DriverError, sys};

use super::super::driver;
use super::super::errors::describe;
use super::CudaMemory;
use crate::base::error::{Error, Result};
use crate::base::sync::{Mutex, lock};
use crate::device::backend::Backend;
use crate::device::event::Event;
use crate::device::host::HostMemory;

/// All memory that could not be pinned, by its address, since any queue of the same GPU may free it: its bytes, and the handle of the context
/// for which it was allocated.
static PAGEABLE: Mutex<BTreeMap<u64, (usize, usize)>> = Mutex::new(BTreeMap::new());

/// The host's side of a queue for copies.
#[derive(Debug)]
pub(super) struct Pinned(CudaMemory);

impl Pinned {
    /// The host's side of the queue of this device side.
    pub(super) fn new(queue: CudaMemory) -> Pinned {
        Pinned(queue)
    }

    fn context(&self) -> usize {
        self.0.context().cu_ctx() as usize
    }

    /// Allocates memory that is not pinned.
    fn allocate_pageable(&self, bytes: usize, refused: DriverError) -> Result<u64> {
        let address = HostMemory.allocate(bytes).map_err(|error| {
            let why = format!("the driver pins no more: {}; {error}", describe(refused));
            Error::out_of_memory("the host", bytes, why)
        })?;
        lock(&PAGEABLE).insert(address, (bytes, self.context()));
        Ok(address)
    }
}

// SAFETY: memory comes from the driver, which hands out no memory twice before it is freed. Only `free` frees it, once the queue's work is
// done. The queue of a `CudaMemory` orders all operations, and that type keeps the order.
unsafe impl Backend for Pinned {
    /// Pinning takes 400 ms for a GiB, so memory is requested in large pieces, which are kept.
    fn allocate(&self, bytes: usize) -> Result<u64> {
        driver::bind(self.0.context()).map_err(|error| self.0.failure("pinning memory of the host", error))?;
        let mut memory = std::ptr::null_mut();
        // SAFETY: the call writes one pointer, for which there is room, and a context is current.
        let pinned = unsafe { sys::cuMemHostAlloc(&mut memory, bytes, sys::CU_MEMHOSTALLOC_PORTABLE) }.result();
        match pinned {
            Ok(()) => Ok(memory.expose_provenance() as u64),
            Err(error) => self.allocate_pageable(bytes, error),
        }
    }

    unsafe fn free(&self, address: u64, _bytes: usize) -> Result<()> {
        self.0.synchronize()?;
        let taken = lock(&PAGEABLE).remove(&address);
        if let Some((bytes, _)) = taken {
            // SAFETY: `allocate_pageable` allocated this many bytes at this address and noted them, and the note is removed once. The
            // caller frees memory that only work of this queue may still use, and that work is done.
            return unsafe { HostMemory.free(address, bytes) };
        }
        // SAFETY: the caller frees memory that `allocate` returned, once. No work uses it any more, since all work of the queue is done.
        unsafe { sys::cuMemFreeHost(std::ptr::with_exposed_provenance_mut(address as usize)) }
            .result()
            .map_err(|error| self.0.failure("freeing pinned memory of the host", error))
    }

    unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()> {
        // SAFETY: the caller promises what `fill` requires, for memory that the device reaches at the same address.
        unsafe { self.0.fill(address, bytes, pattern) }
    }

    unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller promises what `write` requires, for memory that the device reaches at the same address.
        unsafe { self.0.write(from, to, bytes) }
    }

    unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller promises what `read` requires, for memory that the device reaches at the same address.
        unsafe { self.0.read(from, to, bytes) }
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller promises what `copy` requires, for memory that the device reaches at the same address.
        unsafe { self.0.copy(from, to, bytes) }
    }

    fn pageable_bytes(&self) -> u64 {
        let mine = self.context();
        lock(&PAGEABLE).values().filter(|(_, context)| *context == mine).map(|(bytes, _)| *bytes as u64).sum()
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
