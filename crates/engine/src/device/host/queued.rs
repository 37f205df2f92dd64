//! The backend of a stream whose work is done late: what the default stream does at once is put on a queue.
#![allow(unsafe_code)]

use std::any::Any;
use std::slice::from_raw_parts;
use std::sync::{Arc, PoisonError};

use super::memory::HostMemory;
use super::queue::{Progress, Queue};
use crate::base::error::{Error, Result};
#[cfg(debug_assertions)]
use crate::base::held::assert_nothing_held;
use crate::base::sync::Mutex;
use crate::device::mark::Moment;
use crate::device::{Backend, Copies, Event, Mark};

/// Memory of the process, ordered by a queue.
#[derive(Debug)]
pub(super) struct Queued(pub(super) Queue);

/// As any backend's, the destructor may be code of the program.
#[cfg(debug_assertions)]
impl Drop for Queued {
    fn drop(&mut self) {
        assert_nothing_held();
    }
}

/// What the default stream does at once, to be done when it is its turn in the queue.
///
/// Invariant: each is made by the method of [`Queued`] of its name alone, from what its caller promises until it is
/// done.
enum Operation {
    Free { address: u64, bytes: usize },
    Fill { address: u64, bytes: usize, pattern: Vec<u8> },
    Write { from: Vec<u8>, to: u64 },
    Copy { from: u64, to: u64, bytes: usize },
}

impl Operation {
    fn run(self) -> Result<()> {
        // SAFETY: whoever called the method that made this promised what the default stream's method of the same name
        // asks for: of the memory as it is when the operation's turn comes, which is behind all that was queued before
        // and before all that is queued later. What is written from is here, and nobody else's.
        unsafe {
            match self {
                Operation::Free { address, bytes } => HostMemory.free(address, bytes),
                Operation::Fill { address, bytes, pattern } => HostMemory.fill(address, bytes, &pattern),
                Operation::Write { from, to } => HostMemory.write(from.as_ptr(), to, from.len()),
                Operation::Copy { from, to, bytes } => HostMemory.copy(from, to, bytes),
            }
        }
    }
}

/// An event: a place in a queue, once it was recorded.
#[derive(Debug, Default)]
struct QueueEvent(Mutex<Option<(Arc<Progress>, u64)>>);

impl QueueEvent {
    fn place(&self) -> Option<(Arc<Progress>, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

// SAFETY: `is_done` answers that pieces up to the place have ended, which are all that it was recorded behind.
unsafe impl Event for QueueEvent {
    fn is_complete(&self) -> Result<bool> {
        Ok(self.place().is_none_or(|(progress, piece)| progress.is_done(piece)))
    }
}

fn own(event: &dyn Event) -> Result<&QueueEvent> {
    let event: &dyn Any = event;
    event.downcast_ref().ok_or_else(|| Error::device_failure("the host", "an event", "it is another device's"))
}

impl Queued {
    /// Queues an operation; what it meets is kept for the stream's next call.
    fn push(&self, operation: Operation) -> Result<()> {
        let progress = self.0.progress().clone();
        self.0.push(move || operation.run().unwrap_or_else(|error| progress.keep(error)));
        Ok(())
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
        self.push(Operation::Free { address, bytes })
    }

    unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()> {
        self.push(Operation::Fill { address, bytes, pattern: pattern.to_vec() })
    }

    unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(bytes).map_err(|error| Error::out_of_memory("the host", bytes, error))?;
        // SAFETY: the caller gives `bytes` readable bytes at `from`, which nobody writes until this returns.
        copy.extend_from_slice(unsafe { from_raw_parts(from, bytes) });
        self.push(Operation::Write { from: copy, to })
    }

    unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        let progress = self.0.progress();
        progress.finish()?;
        progress.check()?;
        // SAFETY: the caller gives a block of `bytes` bytes at `from` and as many writable at `to`, of another object.
        // All work is done that wrote the block, as `finish` waited for it.
        unsafe { HostMemory.read(from, to, bytes) }
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        self.push(Operation::Copy { from, to, bytes })
    }

    fn copies(&self) -> Result<Option<Copies>> {
        let queue: Arc<dyn Backend> = Arc::new(Queued(Queue::start()?));
        Ok(Some(Copies { device: queue.clone(), host: queue }))
    }

    fn synchronize(&self) -> Result<()> {
        self.0.progress().finish()
    }

    fn new_event(&self) -> Result<Arc<dyn Event>> {
        Ok(Arc::new(QueueEvent::default()))
    }

    fn record(&self, event: &dyn Event) -> Result<()> {
        let progress = self.0.progress();
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
        self.0.push(move || reached.reach());
        Ok(Some(Box::new(moment)))
    }

    fn runs_closures(&self) -> bool {
        true
    }
}
