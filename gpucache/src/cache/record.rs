//! What is known of a block of device memory through all its lives.
//!
//! Invariants: a record is owned by exactly one of a `Block`, an idle list, a plan, or a return stack; its memory is
//! released once, when the record goes. Its `shape` is that of the request it serves.
#![allow(unsafe_code)]

mod sharing;

use std::any::{Any, TypeId};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::uses::Uses;
use crate::base::error::Result;
use crate::base::key::{Request, Shape};
use crate::base::sync::{Mutex, OnceLock};
use crate::device::{Stream, process_exits};
use crate::range::{self, DeviceRange};

/// A block of memory through all its lives. What a life of a plan's changes lies together, most of it in one line of the
/// processor's cache.
#[repr(C, align(64))]
pub(crate) struct Record {
    pub(super) address: u64,
    pub(super) bytes: usize,
    /// What a drop goes by: the epoch of a planned record, or one of the tickets below.
    ticket: AtomicU64,
    /// The record under it in a [`Stack`].
    below: Option<Box<Record>>,
    /// Its list, or its position in the plan.
    list: u32,
    /// The epoch of its stream in which it was written last, if that is known; else 0, or `BARE`.
    written: AtomicU32,
    pub(super) shape: Shape,
    pub(super) is_reshaped: bool,
    pub(super) home: Home,
    pub(super) stream: Stream,
    /// What the front end made of the memory and wants to find again in the next life.
    pub(super) view: OnceLock<Box<dyn View>>,
    /// What other streams do with the memory, as far as they said so.
    uses: OnceLock<Box<Mutex<Uses>>>,
    /// The next record of a return stack.
    pub(super) next: AtomicPtr<Record>,
    /// The number of the key whose list it returns to, if that still has it.
    key: u64,
    /// When it came into an idle list, counted by the list's owner.
    pub(super) seen: u64,
    /// The entry that recorded its allocation last, and the allocation's number there.
    pub(super) recorded: (u32, u32),
    pub(super) origin: Origin,
}

// A record of any other size shares lines with its neighbours on the heap, which other threads may write.
#[cfg(not(gpucache_tsan))]
const _: () = assert!(size_of::<Record>() == 256);

/// The ticket of a record whose drop has more to do than to give the memory back: there is a view, or a device that
/// watches. No block has these epochs.
const CARE: u64 = 1;
/// The ticket of any other record that is not planned.
const UNPLANNED: u64 = 2;

/// Where a block's memory goes when the block does.
#[derive(Debug)]
pub(super) enum Origin {
    /// Back to the stream's backend.
    Device,
    Range(range::Block),
    /// It is a place in a plan's block.
    Plan,
    /// It has none, or somebody else has it.
    Nowhere,
}

/// Who served a record and takes it back.
pub(super) trait Keeper: Sync {
    /// Takes back what was dropped, on any thread.
    fn take_back(&'static self, record: Box<Record>);
}

/// Where records find their keeper: a thin address, for which a record has room, and by which keepers are told apart.
pub(super) struct Door(OnceLock<&'static dyn Keeper>);

impl Door {
    pub(super) fn new() -> Door {
        Door(OnceLock::new())
    }

    /// Leads to this keeper from now on. Before that it leads nowhere.
    pub(super) fn lead_to(&self, keeper: &'static dyn Keeper) {
        self.0.get_or_init(|| keeper);
    }

    /// Hands a record to its keeper.
    pub(super) fn take_back(&self, record: Box<Record>) {
        if let Some(keeper) = self.0.get() {
            keeper.take_back(record);
        }
    }
}

/// Where a record returns to.
#[derive(Clone, Copy, Default)]
pub(super) struct Home {
    pub(super) door: Option<&'static Door>,
    /// The cache's generation that allocated it: what is of an older one when it returns was invalidated. For a place in a
    /// plan's block the epoch of that block.
    pub(super) generation: u64,
}

/// The list of a key, to which its blocks return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) list: u32,
    /// The key's number; 0 for a block that returns to no list.
    pub(super) key: u64,
}

impl Home {
    /// The generation of blocks that no list keeps.
    pub(super) const NEVER_KEPT: u64 = u64::MAX;
}

/// A front end's own object over a block's memory, which knows of uses by streams that the engine has no handle of.
pub(crate) trait View: Any + Send + Sync {
    /// Orders later work of the block's own stream behind what others wrote, as far as the view knows of it.
    ///
    /// # Errors
    /// A failure to order; then nothing may be done with the memory.
    fn follow_writes(&self) -> Result<()>;

    /// As [`follow_writes`](View::follow_writes), behind all that others do with it. Nothing that the view lent is borrowed.
    ///
    /// # Errors
    /// As for [`follow_writes`](View::follow_writes).
    fn follow_uses(&mut self) -> Result<()>;
}

/// Records without memory, the one that came last on top: its lines are the likeliest to be in the processor's cache.
#[derive(Default)]
pub(super) struct Stack(Option<Box<Record>>);

impl Stack {
    #[inline]
    pub(super) fn push(&mut self, mut record: Box<Record>) {
        let nothing = std::mem::replace(&mut record.below, self.0.take());
        // None is under a record that is on no stack; to forget that costs nothing, to drop it would.
        std::mem::forget(nothing);
        self.0 = Some(record);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Box<Record>> {
        let mut top = self.0.take()?;
        self.0 = top.below.take();
        Some(top)
    }

    /// Lets all of them serve positions of this block.
    pub(super) fn join(&mut self, epoch: u64) {
        let mut next = &mut self.0;
        while let Some(record) = next {
            record.join(epoch);
            next = &mut record.below;
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // One by one, not one within the other.
        while self.pop().is_some() {}
    }
}

impl Record {
    pub(super) fn new(stream: &Stream, request: &Request<'_>, address: u64, origin: Origin) -> Record {
        Record {
            address,
            bytes: request.bytes,
            ticket: AtomicU64::new(ticket(stream, UNPLANNED)),
            below: None,
            list: 0,
            written: AtomicU32::new(0),
            shape: Shape::new(request.dims),
            is_reshaped: false,
            home: Home::default(),
            stream: stream.clone(),
            view: OnceLock::new(),
            uses: OnceLock::new(),
            next: AtomicPtr::default(),
            key: 0,
            seen: 0,
            recorded: (0, 0),
            origin,
        }
    }

    /// Gives a record without memory another one, for another request.
    pub(super) fn refill(&mut self, stream: &Stream, request: &Request<'_>, address: u64, origin: Origin) {
        self.address = address;
        self.bytes = request.bytes;
        *self.ticket.get_mut() = ticket(stream, UNPLANNED);
        self.origin = origin;
        self.is_reshaped = false;
        // Work of its last life wrote the memory that it had then.
        *self.written.get_mut() = 0;
        self.shape.assign(request.dims);
        if self.stream.id() != stream.id() {
            self.stream = stream.clone();
        }
    }

    /// Gives the memory back where it came from; the record has none from then on.
    pub(super) fn vacate(&mut self) {
        let origin = std::mem::replace(&mut self.origin, Origin::Nowhere);
        if process_exits() {
            return std::mem::forget(self.view.take());
        }
        if let Err(error) = self.end_uses() {
            // Who uses it cannot be waited for: it is nobody's then.
            std::mem::forget(self.view.take());
            return self.stream.keep(error);
        }
        drop(self.view.take());
        match origin {
            // SAFETY: `allocate` of this stream gave `bytes` at `address`, and the origin is taken once. A record is
            // vacated when neither a block nor a list has it, so no later work uses the memory.
            Origin::Device => unsafe { self.stream.release(self.address, self.bytes) },
            Origin::Range(block) => {
                if let Some(range) = DeviceRange::of(&self.stream) {
                    range.free(&self.stream, block);
                }
            }
            Origin::Plan | Origin::Nowhere => {}
        }
    }

    /// A record for what a plan serves, without memory yet.
    #[cold]
    pub(super) fn planned(stream: &Stream, door: Option<&'static Door>, epoch: u64) -> Box<Record> {
        let nothing = Request { dtype: TypeId::of::<()>(), dims: &[0], len: 0, bytes: 0 };
        let mut record = Box::new(Record::new(stream, &nothing, 0, Origin::Plan));
        record.home.door = door;
        record.join(epoch);
        record
    }

    /// Lets a planned record serve positions of this block.
    pub(super) fn join(&mut self, epoch: u64) {
        self.home.generation = epoch;
        *self.ticket.get_mut() = ticket(&self.stream, epoch);
    }

    /// Gives a planned record its place for the life that begins, all but the shape.
    #[inline]
    pub(super) fn place(&mut self, bytes: usize, address: u64, position: u32) {
        self.address = address;
        self.bytes = bytes;
        self.list = position;
        *self.written.get_mut() = 0;
    }

    /// Lets a planned record go its own way: from now on it has memory of the range.
    pub(super) fn evict(&mut self, block: range::Block, generation: u64) {
        self.origin = Origin::Range(block);
        self.home.generation = generation;
    }

    /// Orders the stream behind what the view knows of foreign uses, since the next life may begin with work that looks at no
    /// view. A planned record's view goes, as another position may have the memory next.
    #[inline]
    pub(super) fn leave_view(&mut self) {
        let Some(view) = self.view.get_mut() else { return };
        if let Err(error) = view.follow_uses() {
            // Not even waiting was possible: the device is lost, and runs nothing any more.
            self.stream.keep(error);
        }
        if matches!(self.origin, Origin::Plan) {
            drop(self.view.take());
            *self.ticket.get_mut() = ticket(&self.stream, self.home.generation);
        }
    }

    /// Ends a life: whoever had the bare address has it no more.
    #[inline]
    pub(super) fn end_life(&mut self) {
        *self.written.get_mut() = 0;
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    #[inline]
    pub(super) fn ticket(&self) -> u64 {
        self.ticket.load(Relaxed)
    }

    /// Whether a drop has more to do than to give the memory back.
    #[inline]
    pub(super) fn needs_care(&self) -> bool {
        self.ticket() == CARE
    }

    /// A drop has more to do than to give the memory back.
    pub(super) fn take_care(&self) {
        self.ticket.store(CARE, Relaxed);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn home(&self) -> Home {
        self.home
    }

    pub(super) fn list(&self) -> u32 {
        self.list
    }

    /// The place in its home's lists, for a record that is not planned.
    #[inline]
    pub(super) fn place_in_lists(&self) -> Place {
        Place { list: self.list, key: self.key }
    }

    pub(super) fn set_home(&mut self, home: Home, place: Place) {
        (self.home, self.list, self.key) = (home, place.list, place.key);
    }

    /// Has its list's shape again, if it was given another one.
    #[inline(always)]
    pub(super) fn restore_shape(&mut self, shape: &Shape) {
        if self.is_reshaped {
            self.shape.assign(shape.dims());
            self.is_reshaped = false;
        }
    }
}

/// The ticket of a record on this stream without a view.
fn ticket(stream: &Stream, otherwise: u64) -> u64 {
    if stream.watches() { CARE } else { otherwise }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.vacate();
    }
}
