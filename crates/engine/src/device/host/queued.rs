//! The backend of a stream whose work is done later. It queues the operations that the default stream does at once.
#![allow(unsafe_code)]

use std::any::Any;
use std::slice::from_raw_parts;
use std::sync::{Arc, PoisonError};

use super::budget::host_vec;
use super::memory::HostMemory;
use super::queue::{HostQueue, Progress};
use crate::base::error::{Error, Result};
#[cfg(debug_assertions)]
use crate::base::held::assert_nothing_held;
use crate::base::sync::{Mutex, lock};
use crate::device::mark::Moment;
use crate::device::stream::capture::Word;
use crate::device::{Backend, Copies, Event, Mark};

/// The destructor of a backend may be code of the program, so this one checks the same rule.
#[cfg(debug_assertions)]
impl Drop for HostQueue {
    fn drop(&mut self) {
        assert_nothing_held();
    }
}

/// An operation of the default stream that waits for its turn in the queue.
///
/// Invariant: only the method of [`HostQueue`] with the same name makes it. That method's caller promises the operation's conditions until it
/// is done.
enum QueuedCall {
    Free { address: u64, bytes: usize },
    Fill { address: u64, bytes: usize, pattern: Vec<u8> },
    Write { from: Vec<u8>, to: u64 },
    Copy { from: u64, to: u64, bytes: usize },
}

impl QueuedCall {
    fn run(self) -> Result<()> {
        // SAFETY: the caller of the method that made this operation promised what the default stream's method of the same name requires,
        // for the time of the operation's turn. That turn is after all work queued before it and before all work queued later. The source
        // of a write is owned by the operation itself.
        unsafe {
            match self {
                QueuedCall::Free { address, bytes } => HostMemory.free(address, bytes),
                QueuedCall::Fill { address, bytes, pattern } => HostMemory.fill(address, bytes, &pattern),
                QueuedCall::Write { from, to } => HostMemory.write(from.as_ptr(), to, from.len()),
                QueuedCall::Copy { from, to, bytes } => HostMemory.copy(from, to, bytes),
            }
        }
    }
}

/// An event: a place in a queue, once it was recorded.
#[derive(Debug, Default)]
struct QueueEvent(Mutex<Option<(Arc<Progress>, u64)>>);

impl QueueEvent {
    fn place(&self) -> Option<(Arc<Progress>, u64)> {
        lock(&self.0).clone()
    }
}

// SAFETY: `is_done` returns `true` once all pieces up to the place have ended. These are all pieces before the recording.
unsafe impl Event for QueueEvent {
    fn is_complete(&self) -> Result<bool> {
        Ok(self.place().is_none_or(|(progress, piece)| progress.is_done(piece)))
    }
}

fn own(event: &dyn Event) -> Result<&QueueEvent> {
    let event: &dyn Any = event;
    event.downcast_ref().ok_or_else(|| Error::device_failure("the host", "an event", "it is another device's"))
}

impl HostQueue {
    /// Queues an operation. Its error is kept for the stream's next call.
    fn put(&self, operation: QueuedCall) -> Result<()> {
        let progress = self.progress().clone();
        self.push(move |_| operation.run().unwrap_or_else(|error| progress.keep(error)));
        Ok(())
    }

    /// Makes later work wait for the work that is on `other` now.
    pub(super) fn follow(&self, other: &HostQueue) {
        self.follow_place(other.progress().clone(), other.progress().queued());
    }

    fn follow_place(&self, progress: Arc<Progress>, piece: u64) {
        // Earlier work of this stream is done before its later work anyway.
        if !Arc::ptr_eq(&progress, self.progress()) && !progress.is_done(piece) {
            self.push(move |_| progress.wait(piece));
        }
    }
}

// SAFETY: memory comes from the default stream's backend, which hands out no memory twice. The queue runs one operation after the other,
// each before all pieces that were queued later, so a free comes after all uses. An event is complete, and a wait for it ends, once all
// pieces up to its place have ended.
unsafe impl Backend for HostQueue {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        HostMemory.allocate(bytes)
    }

    unsafe fn free(&self, address: u64, bytes: usize) -> Result<()> {
        self.put(QueuedCall::Free { address, bytes })
    }

    unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()> {
        self.put(QueuedCall::Fill { address, bytes, pattern: pattern.to_vec() })
    }

    unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        let mut copy = host_vec(bytes)?;
        // SAFETY: the caller promises `bytes` readable bytes at `from`, which nobody writes until this returns.
        copy.extend_from_slice(unsafe { from_raw_parts(from, bytes) });
        self.put(QueuedCall::Write { from: copy, to })
    }

    unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        let progress = self.progress();
        progress.finish(Some(Word::address(from, bytes, false)))?;
        progress.check()?;
        // SAFETY: the caller promises a block of `bytes` bytes at `from` and `bytes` writable bytes of another object at `to`. `finish`
        // waited for all work that wrote the block.
        unsafe { HostMemory.read(from, to, bytes) }
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        self.put(QueuedCall::Copy { from, to, bytes })
    }

    fn copies(&self) -> Result<Option<Copies>> {
        let queue: Arc<dyn Backend> = Arc::new(HostQueue::start()?);
        Ok(Some(Copies { device: queue.clone(), host: queue }))
    }

    fn synchronize(&self) -> Result<()> {
        self.progress().finish(None)
    }

    fn new_event(&self) -> Result<Arc<dyn Event>> {
        Ok(Arc::new(QueueEvent::default()))
    }

    fn record(&self, event: &dyn Event) -> Result<()> {
        let progress = self.progress();
        *own(event)?.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((progress.clone(), progress.queued()));
        Ok(())
    }

    fn wait(&self, event: &dyn Event) -> Result<()> {
        if let Some((progress, piece)) = own(event)?.place() {
            self.follow_place(progress, piece);
        }
        Ok(())
    }

    fn mark(&self) -> Result<Option<Box<dyn Mark>>> {
        let moment = Moment::default();
        let reached = moment.clone();
        self.push(move |_| reached.reach());
        Ok(Some(Box::new(moment)))
    }

    fn is_held_elsewhere(&self) -> bool {
        false
    }

    fn runs_closures(&self) -> bool {
        true
    }
}
