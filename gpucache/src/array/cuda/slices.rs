//! A block's memory as `CudaSlice`s, for cudarc's own kernel launches and for callers that need a slice.
//!
//! A slice has one event for all its reads, and the event knows only the last one. So each read of an array gets a slice of
//! its own over the same memory, a *tracked slice*, from a ring. The slices' events do not know how the block's own stream, called home,
//! uses the memory. So when a slice is lent, its event for writes is recorded on home, behind all work there. Everybody who waits
//! for that event, as cudarc's launches do, is then behind that work. (If more than [`READERS`] launches are prepared at once and not
//! yet launched, the first of them is not known.)
//!
//! The events are waited for and recorded by their handles. cudarc itself looks at them only while its context object has several
//! streams, and the last of those streams may be gone while its work still runs.
//!
//! Invariants: the slices free no memory, unless it was adopted, or detached from its block. Handles belong to the slice beside them, which
//! is not replaced.
#![allow(unsafe_code)]

use std::mem::{ManuallyDrop, forget};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;

use cudarc::driver::{CudaSlice, DevicePtr, DevicePtrMut, SyncOnDrop};

use crate::array::{Element, len_of};
use crate::device::{Cuda, Device};
use gpucache_engine::base::sync::{Mutex, OnceLock, lock};
use gpucache_engine::cache::Block;
use gpucache_engine::device::GpuStream;
use gpucache_engine::{Error, Result};

/// Reads between two writes that are known separately. Each has a slice with two events of its own. Before one more read, home
/// waits for the read that had its slice before. With fewer slices, home would have to wait for slow readers that
/// nothing needs yet.
const READERS: usize = 8;

/// How often this crate tries to make a slice with events. A failure that another thread left in cudarc's object is gone at the next try. The
/// driver makes no events if it fails three times in a row.
const TRIES: usize = 3;

/// A block's memory as `CudaSlice`s.
pub(super) struct Slices<T: Element> {
    /// The slice for writes and for the first read. It owns the memory if it was adopted, or if its block was detached.
    pub(super) first: TrackedSlice<T>,
    owns: bool,
    others: [OnceLock<TrackedSlice<T>>; READERS - 1],
    loans: Mutex<Loans>,
}

/// A slice, and the handles of its events as numbers. There are no handles if cudarc was told to track no events.
pub(super) struct TrackedSlice<T> {
    // The drop of a `CudaSlice` would free memory that it does not own.
    slice: ManuallyDrop<CudaSlice<T>>,
    /// The event that is recorded behind the slice's last read.
    read: Option<usize>,
    /// The event that is recorded behind its last write.
    write: Option<usize>,
}

#[derive(Default)]
struct Loans {
    /// The number of reads since home was behind all of them.
    reads: usize,
    /// Whether the first slice was lent for writing, and home is not yet behind that.
    is_written: bool,
}

impl<T: Element> Slices<T> {
    /// Slices over the memory of `first`, which `owns` it or not.
    pub(super) fn new(first: TrackedSlice<T>, owns: bool) -> Slices<T> {
        Slices { first, owns, others: Default::default(), loans: Mutex::default() }
    }

    /// A slice of the block for one read, on any stream, behind home's work.
    pub(super) fn reading(&self, home: &Cuda, block: &Block) -> Result<&TrackedSlice<T>> {
        let mut loans = lock(&self.loans);
        let tracked = match loans.reads % READERS {
            0 => &self.first,
            place => self.others[place - 1].get_or_init(|| TrackedSlice::over(home, block)),
        };
        let was_lent = loans.reads >= READERS;
        loans.reads += 1;
        if !was_lent || block.is_bare() {
            // Home may write bare memory between two reads. Not for every read: home may be behind slow readers by now, for which this reader need not wait.
            tracked.announce(home)?;
        }
        if was_lent {
            // The slice's event is about to be recorded for another read.
            tracked.follow_read(home)?;
        }
        Ok(tracked)
    }

    /// The slice for writes, on any stream. Home must be behind all uses.
    pub(super) fn writing(&mut self, home: &Cuda) -> Result<&mut TrackedSlice<T>> {
        self.loans_mut().is_written = true;
        self.first.announce(home)?;
        Ok(&mut self.first)
    }

    /// Orders later work of `home` behind writes by the slice.
    pub(super) fn follow_writes(&self, home: &Cuda) -> Result<()> {
        let mut loans = lock(&self.loans);
        if loans.is_written {
            self.first.follow(home)?;
            loans.is_written = false;
        }
        Ok(())
    }

    /// Orders later work of `home` behind all uses for which the slices were lent.
    pub(super) fn follow_uses(&mut self, home: &Cuda) -> Result<()> {
        let Loans { reads, is_written } = *self.loans_mut();
        if reads > 0 || is_written {
            self.first.follow(home)?;
        }
        let lent = self.others.iter().take(reads.saturating_sub(1));
        // None of them is written, so only home recorded their events for writes.
        lent.filter_map(OnceLock::get).try_for_each(|tracked| tracked.follow_read(home))?;
        *self.loans_mut() = Loans::default();
        Ok(())
    }

    /// Notes that all work is done, so that nothing has to be followed.
    pub(super) fn forget_uses(&mut self) {
        *self.loans_mut() = Loans::default();
    }

    /// Returns the slice with the memory, which no block has any more. Its events are recorded behind all work that is on `home` now. If
    /// that fails, the memory is freed.
    pub(super) fn into_slice(mut self, home: &Cuda) -> Result<CudaSlice<T>> {
        self.owns = true;
        if let Err(error) = self.first.announce(home) {
            // cudarc frees in the current context.
            home.0.make_current();
            self.release();
            return Err(error);
        }
        self.others.into_iter().filter_map(OnceLock::into_inner).for_each(TrackedSlice::release);
        Ok(ManuallyDrop::into_inner(self.first.slice))
    }

    /// Destroys the slices, and frees the memory if they own it.
    ///
    /// Without this call the slices leak: their drop does nothing, so that none can free memory by mistake.
    pub(super) fn release(self) {
        self.others.into_iter().filter_map(OnceLock::into_inner).for_each(TrackedSlice::release);
        match self.owns {
            true => drop(ManuallyDrop::into_inner(self.first.slice)),
            false => self.first.release(),
        }
    }

    fn loans_mut(&mut self) -> &mut Loans {
        self.loans.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Element> TrackedSlice<T> {
    /// A slice over the memory of a block.
    pub(super) fn over(home: &Cuda, block: &Block) -> TrackedSlice<T> {
        let tracked = TrackedSlice::of(upgrade(home, block.address(), len_of::<T>(block)));
        // If cudarc met a failure there, it concerns only this array.
        home.0.take_kept(home.stream().context());
        tracked
    }

    pub(super) fn of(mut slice: CudaSlice<T>) -> TrackedSlice<T> {
        let stream = slice.stream().clone();
        let read = handle(slice.device_ptr(&stream).1);
        let write = handle(slice.device_ptr_mut(&stream).1);
        TrackedSlice { slice: ManuallyDrop::new(slice), read, write }
    }

    pub(super) fn slice(&self) -> &CudaSlice<T> {
        &self.slice
    }

    pub(super) fn slice_mut(&mut self) -> &mut CudaSlice<T> {
        &mut self.slice
    }

    /// Whether cudarc's launches record their uses in the slice's events.
    pub(super) fn has_events(&self) -> bool {
        self.read.is_some()
    }

    /// Makes everybody who waits for the slice's last write also wait for all work that is on `home` now. If the slice should have an event
    /// and has none, the calling thread waits instead.
    pub(super) fn announce(&self, home: &Cuda) -> Result<()> {
        if self.write.is_none() && home.stream().context().is_event_tracking() {
            return home.0.wait_for_work();
        }
        self.with(home, |slice| slice.write, GpuStream::record_event)
    }

    fn follow_read(&self, home: &Cuda) -> Result<()> {
        self.with(home, |slice| slice.read, GpuStream::follow_event)
    }

    /// Orders later work of `home` behind the uses that the events know.
    pub(super) fn follow(&self, home: &Cuda) -> Result<()> {
        self.follow_read(home)?;
        self.with(home, |slice| slice.write, GpuStream::follow_event)
    }

    /// Applies `act`, which records an event or waits for it, to one of this slice's events, if there are any.
    fn with(
        &self,
        home: &Cuda,
        of: fn(&Self) -> Option<usize>,
        act: unsafe fn(&GpuStream, usize) -> Result<()>,
    ) -> Result<()> {
        // SAFETY: `of` captures nothing, so it returns `read` or `write` of this slice. These are the handles of events that `slice` owns, and
        // destroys when it is dropped. It stays here, the same slice, as long as `self` is borrowed: it is private, and it is lent mutably
        // only as a launch's argument or for its views, neither of which can replace it. `act` asks for no more: each caller passes
        // `record_event` or `follow_event`.
        of(self).map_or(Ok(()), |event| unsafe { act(&home.0, event) })
    }

    /// Destroys the slice's events, and does not free the memory.
    fn release(self) {
        let _ = ManuallyDrop::into_inner(self.slice).leak();
    }
}

/// The handle of the event that cudarc would record now. It is not recorded.
fn handle(recorded: SyncOnDrop<'_>) -> Option<usize> {
    let event = match &recorded {
        SyncOnDrop::Record(Some((event, _))) => Some(event.cu_event() as usize),
        _ => None,
    };
    forget(recorded);
    event
}

/// A `CudaSlice` over memory. If events cannot be made, the slice gets none, and the next fallible call returns the failure. Whoever
/// lends such a slice waits for the stream first (`announce`).
pub(super) fn upgrade<T>(home: &Cuda, address: u64, len: usize) -> CudaSlice<T> {
    let mut tries = TRIES;
    loop {
        match try_upgrade(home, address, len, tries > 0) {
            Ok(slice) => return slice,
            Err(error) => home.stream_handle().keep(error),
        }
        // Without events, cudarc makes no call that can fail.
        tries = tries.saturating_sub(1);
    }
}

/// cudarc panics if it cannot make the slice's events, or if its context object keeps a failure, which any thread may put there at any time.
/// So this function first makes an event itself, and catches the panic that comes nevertheless.
fn try_upgrade<T>(home: &Cuda, address: u64, len: usize, has_events: bool) -> Result<CudaSlice<T>> {
    let (stream, context) = (home.stream(), home.stream().context());
    home.0.take_kept(context);
    let is_tracking = context.is_event_tracking();
    if is_tracking && has_events {
        home.0.try_event()?;
    }
    // SAFETY: the block has room for `len` elements at `address`, and lives as long as the slice. The owner drops the slice only to free
    // memory that it owns (`Slices`) or just allocated (`copied`). Events are off only after several failures: the context is lost then. Its
    // streams run nothing any more that could be out of order with a slice of cudarc's that another thread makes meanwhile.
    let made = catch_unwind(AssertUnwindSafe(|| unsafe {
        let is_off = is_tracking && !has_events;
        is_off.then(|| context.disable_event_tracking());
        let slice = stream.upgrade_device_ptr(address, len);
        is_off.then(|| context.enable_event_tracking());
        slice
    }));
    made.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map_or("cudarc panicked", String::as_str);
        Error::device_failure(format_args!("{home:?}"), "making an event", text)
    })
}
