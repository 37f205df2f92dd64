//! The backend of a stream whose work is done late: what the default stream does at once is put on a queue.
#![allow(unsafe_code)]

use std::any::Any;
use std::slice::from_raw_parts;
use std::sync::{Arc, PoisonError};

use super::memory::HostMemory;
use super::queue::{Progress, Queue};
use crate::base::error::{Error, Result};
use crate::base::sync::Mutex;
use crate::device::{Backend, Event};

/// Memory of the process, ordered by a queue.
#[derive(Debug)]
pub(super) struct Queued(pub(super) Queue);

/// A place in a queue.
#[derive(Debug, Default)]
struct Mark(Mutex<Option<(Arc<Progress>, u64)>>);

impl Mark {
    fn place(&self) -> Option<(Arc<Progress>, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

// SAFETY: `is_done` answers that pieces up to the place have ended, which are all that it was recorded behind.
unsafe impl Event for Mark {
    fn is_complete(&self) -> Result<bool> {
        Ok(self.place().is_none_or(|(progress, piece)| progress.is_done(piece)))
    }
}

fn mark(event: &dyn Event) -> Result<&Mark> {
    let event: &dyn Any = event;
    event.downcast_ref().ok_or_else(|| Error::device_failure("the host", "an event", "it is another device's"))
}

impl Queued {
    /// Queues an operation of the default stream; what it meets is kept for the stream's next call.
    fn push(&self, operation: impl FnOnce() -> Result<()> + Send + 'static) {
        let progress = self.0.progress().clone();
        self.0.push(move || operation().unwrap_or_else(|error| progress.keep(error)));
    }

    /// Lets later work wait for what is on `other` now.
    pub(super) fn follow(&self, other: &Queued) {
        self.follow_place(other.0.progress().clone(), other.0.progress().queued());
    }

    fn follow_place(&self, progress: Arc<Progress>, piece: u64) {
        // What this stream did is before its later work anyhow.
        if !Arc::ptr_eq(&progress, self.0.progress()) && !progress.is_done(piece) {
            self.0.push(move || progress.wait(piece));
        }
    }
}

// SAFETY: memory is that of the default stream, which hands nothing out twice. Every operation runs in the queue, one
// after the other and all before a piece that was queued later, so that a free is behind all uses; a mark is complete,
// and a wait for it over, once all pieces up to its place have ended.
unsafe impl Backend for Queued {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        HostMemory.allocate(bytes)
    }

    unsafe fn free(&self, address: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller's contract; what is on the stream now, which may use the memory, is done before.
        self.push(move || unsafe { HostMemory.free(address, bytes) });
        Ok(())
    }

    unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()> {
        let pattern = pattern.to_vec();
        // SAFETY: the caller's contract is that nothing else touches the memory before this is done.
        self.push(move || unsafe { HostMemory.fill(address, bytes, &pattern) });
        Ok(())
    }

    unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(bytes).map_err(|error| Error::out_of_memory("the host", bytes, error))?;
        // SAFETY: the caller gives `bytes` readable bytes at `from` until this returns.
        copy.extend_from_slice(unsafe { from_raw_parts(from, bytes) });
        // SAFETY: the copy has `bytes` bytes; for `to` the caller's contract is that nothing else touches it before this
        // is done.
        self.push(move || unsafe { HostMemory.write(copy.as_ptr(), to, bytes) });
        Ok(())
    }

    unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        let progress = self.0.progress();
        progress.finish()?;
        progress.check()?;
        // SAFETY: the caller's contract; all work is done that wrote the memory.
        unsafe { HostMemory.read(from, to, bytes) }
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller's contract is that nothing else writes the memory before this is done.
        self.push(move || unsafe { HostMemory.copy(from, to, bytes) });
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        self.0.progress().finish()
    }

    fn new_event(&self) -> Result<Arc<dyn Event>> {
        Ok(Arc::new(Mark::default()))
    }

    fn record(&self, event: &dyn Event) -> Result<()> {
        let progress = self.0.progress();
        *mark(event)?.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((progress.clone(), progress.queued()));
        Ok(())
    }

    fn wait(&self, event: &dyn Event) -> Result<()> {
        if let Some((progress, piece)) = mark(event)?.place() {
            self.follow_place(progress, piece);
        }
        Ok(())
    }

    fn runs_closures(&self) -> bool {
        true
    }
}
