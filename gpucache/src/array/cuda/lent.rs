//! A block's memory as a `CudaSlice`, whose events order the streams that cudarc manages.
//!
//! A slice has one event for all its reads, of which it knows the last alone. So each read of an array gets a slice of its
//! own over the same memory, a *ticket*, from a ring: the first one after a write gets the slice that was written, others
//! one whose event for writes was recorded behind that write. A write, and the end of the block's life, wait for all of
//! them. (Where more than [`TICKETS`] launches are prepared at once and not launched yet, the first of them is not known.)
//! cudarc looks at events only while several streams live; the last of them may be gone while its work still runs.
//!
//! Invariants: the slices are made when they are first asked for, stay with their block through lives in which that keeps its
//! place, and free no memory but what was adopted. What no event of theirs knows, their stream is behind.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, forget};
use std::sync::{Arc, PoisonError};

use cudarc::driver::{CudaEvent, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};

use crate::array::{Element, len_of};
use crate::base::error::Result;
use crate::base::sync::{Mutex, MutexGuard, OnceLock};
use crate::cache::{Block, View};
use crate::device::{Cuda, Device};

/// Readers that are known apart.
const TICKETS: usize = 8;

/// A block's memory as a `CudaSlice`.
pub(super) struct Lent<T: Element> {
    /// The slice that writes go by. It owns the memory if it was adopted.
    slice: ManuallyDrop<CudaSlice<T>>,
    adopted: bool,
    tickets: [OnceLock<Ticket<T>>; TICKETS - 1],
    reads: Mutex<Reads>,
}

/// A slice that owns nothing.
struct Ticket<T>(UnsafeCell<ManuallyDrop<CudaSlice<T>>>);

// SAFETY: a `CudaSlice` may be used by several threads. It is borrowed exclusively in `reading` alone, by whoever holds the
// lock of the reads, before it is lent out for the first time since an exclusive borrow of all tickets.
unsafe impl<T> Sync for Ticket<T> {}

#[derive(Default)]
struct Reads {
    /// Reads since the last write.
    count: usize,
    /// Whether the slices' stream may not be behind their events, at which cudarc does not look while one stream lives.
    is_shared: bool,
}

impl<T: Element> Lent<T> {
    fn new(slice: CudaSlice<T>, adopted: bool) -> Lent<T> {
        let slice = ManuallyDrop::new(slice);
        Lent { slice, adopted, tickets: Default::default(), reads: Mutex::default() }
    }

    /// A slice over the memory of a block, ordered behind all work that is on the block's stream by now.
    pub(super) fn of(block: &Block) -> Lent<T> {
        // SAFETY: the block of an `Array<T, Cuda>` lies on the stream of a `Cuda`.
        let stream = unsafe { Cuda::from_stream_handle(block.stream()) }.stream();
        let mut slice = upgrade(stream, block.address(), len_of::<T>(block));
        // Fresh events order nothing. This records one behind the work so far.
        drop(slice.device_ptr_mut(stream));
        Lent::new(slice, false)
    }

    /// Somebody's slice, with its memory.
    pub(super) fn adopting(slice: CudaSlice<T>) -> Lent<T> {
        Lent::new(slice, true)
    }

    pub(super) fn into_slice(mut self) -> CudaSlice<T> {
        // Its events then know of all uses.
        self.writing();
        for ticket in self.tickets.iter_mut().filter_map(OnceLock::take) {
            release(ManuallyDrop::into_inner(ticket.0.into_inner()));
        }
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so its slice is taken once, and it owns the memory from now on. The rest of it,
        // without its tickets, needs no drop.
        unsafe { ManuallyDrop::take(&mut this.slice) }
    }

    /// A slice for one read on whatever stream.
    pub(super) fn reading(&self) -> &CudaSlice<T> {
        if !self.is_managed() {
            self.settle();
            return &self.slice;
        }
        let mut reads = self.reads();
        let count = reads.count;
        (reads.count, reads.is_shared) = (count + 1, true);
        let ticket = match count % TICKETS {
            0 => None,
            place => Some(self.tickets[place - 1].get_or_init(|| Ticket::like(&self.slice))),
        };
        if let Some(ticket) = ticket.filter(|_| count < TICKETS) {
            // Behind the write.
            with_read_event(&self.slice, |_, _| ());
            // SAFETY: the lock is held, and this is the ticket's first use since a write, which borrowed it exclusively.
            let slice = unsafe { &mut *ticket.0.get() };
            let stream = slice.stream().clone();
            drop(slice.device_ptr_mut(&stream));
        }
        // SAFETY: from now on it is only shared, until an exclusive borrow of all of them.
        let slice = ticket.map_or(&*self.slice, |ticket| unsafe { &*ticket.0.get() });
        if count >= TICKETS {
            wait_for_read(slice);
        }
        slice
    }

    /// The slice, for a write on whatever stream.
    pub(super) fn writing(&mut self) -> &mut CudaSlice<T> {
        if !self.is_managed() {
            self.settle();
            return &mut self.slice;
        }
        let reads = self.reads.get_mut().unwrap_or_else(PoisonError::into_inner);
        reads.is_shared = true;
        let count = std::mem::take(&mut reads.count);
        if count > 1 {
            let used = self.tickets.iter_mut().take(count - 1).filter_map(OnceLock::get_mut);
            used.for_each(|ticket| wait_for_read(ticket.0.get_mut()));
            wait_for_read(&self.slice);
            // Records the event for reads behind all of them.
            drop(self.slice.device_ptr(self.slice.stream()));
        }
        &mut self.slice
    }

    /// The slices' stream waited for uses that their events do not know: the next write records one behind that.
    pub(super) fn fall_behind(&mut self) {
        let reads = self.reads.get_mut().unwrap_or_else(PoisonError::into_inner);
        reads.count = reads.count.max(2);
    }

    /// Waits for all that the slices' events know, if cudarc does not any more.
    pub(super) fn settle(&self) {
        let mut reads = self.reads();
        if reads.is_shared && !self.is_managed() {
            // There was a second stream, and is none now: too rare for something finer.
            let context = self.slice.context();
            context.record_err(context.synchronize());
            // Not the count: tickets that were lent out may still be borrowed.
            reads.is_shared = false;
        }
    }

    fn is_managed(&self) -> bool {
        self.slice.context().is_managing_stream_synchronization()
    }

    fn reads(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Ticket<T> {
    fn like(slice: &CudaSlice<T>) -> Ticket<T> {
        let address = with_read_event(slice, |_, _| ());
        Ticket(UnsafeCell::new(ManuallyDrop::new(upgrade(slice.stream(), address, slice.len()))))
    }
}

impl<T: Element> View for Lent<T> {
    fn read(&self, operation: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let (_, _recorded) = self.reading().device_ptr(self.slice.stream());
        operation()
    }

    fn write(&mut self, operation: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let stream = self.slice.stream().clone();
        let (_, _recorded) = self.writing().device_ptr_mut(&stream);
        operation()
    }
}

impl<T: Element> Drop for Lent<T> {
    fn drop(&mut self) {
        let context = self.slice.context().clone();
        // `CudaSlice` frees in whatever context is current.
        context.record_err(context.bind_to_thread());
        for ticket in self.tickets.iter_mut().filter_map(OnceLock::take) {
            release(ManuallyDrop::into_inner(ticket.0.into_inner()));
        }
        // SAFETY: taken here alone, in the one drop.
        let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
        if self.adopted { drop(settled(slice)) } else { release(slice) }
    }
}

/// Makes a slice's stream wait for its uses, and leaves the memory alone.
fn release<T>(slice: CudaSlice<T>) {
    let _ = settled(slice).leak();
}

/// Makes a slice's stream wait for its uses where cudarc, which looks at events only while several streams live, will not.
fn settled<T>(mut slice: CudaSlice<T>) -> CudaSlice<T> {
    if !slice.context().is_managing_stream_synchronization() {
        wait_for_read(&slice);
        let stream = slice.stream().clone();
        let (_, recorded) = slice.device_ptr_mut(&stream);
        if let SyncOnDrop::Record(Some((write, _))) = &recorded {
            stream.context().record_err(stream.wait(write));
        }
        forget(recorded);
    }
    slice
}

/// Makes a slice's stream wait for the last read of it that its event knows.
fn wait_for_read<T>(slice: &CudaSlice<T>) {
    with_read_event(slice, |stream, read| stream.context().record_err(stream.wait(read)));
}

/// Makes a slice's stream wait for the last write, and runs `act` with that stream and the event for reads. Returns the
/// slice's address. This counts as no read.
fn with_read_event<T>(slice: &CudaSlice<T>, act: impl FnOnce(&CudaStream, &CudaEvent)) -> u64 {
    let (address, recorded) = slice.device_ptr(slice.stream());
    if let SyncOnDrop::Record(Some((read, stream))) = &recorded {
        act(stream, read);
    }
    forget(recorded);
    address
}

/// A `CudaSlice` over memory. cudarc panics if it cannot make the slice's events, so this sees first whether it can; if
/// not, the context is lost, the slice has no events, and the next fallible call says so.
pub(super) fn upgrade<T>(stream: &Arc<CudaStream>, address: u64, len: usize) -> CudaSlice<T> {
    let context = stream.context();
    let lost = context.is_event_tracking().then(|| context.new_event(None).err()).flatten();
    // SAFETY: slices made meanwhile lack events, as this one does; no stream of a lost context runs anything.
    lost.inspect(|_| unsafe { context.disable_event_tracking() });
    // SAFETY: the block has room for `len` elements at `address`; `Lent` sees to it that the slice does not free it.
    let slice = unsafe { stream.upgrade_device_ptr(address, len) };
    if let Some(error) = lost {
        // SAFETY: as it was before.
        unsafe { context.enable_event_tracking() };
        context.record_err::<()>(Err(error));
    }
    slice
}
