//! How a record's lives begin and end, and where its memory goes when there are no more.
//!
//! Invariants: a record is owned by exactly one of a `Block`, an idle list, a plan, or a return stack; its memory is
//! released once, when the record goes. Its `shape` is that of the request it serves.
#![allow(unsafe_code)]

use std::any::TypeId;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use super::drop_path::DropPath;
use super::identity::{ArenaId, Generation, Place};
use super::last_write::LastWrite;
use super::uses::Uses;
use super::view::View;
use super::{Door, Home};
use crate::base::key::{Request, Shape};
use crate::base::sync::{Mutex, OnceLock};
use crate::device::{Stream, process_exits};
use crate::range::{self, DeviceRange};

/// A block of memory through all its lives. What a life of a plan's changes lies together, most of it in one line of the
/// processor's cache.
#[repr(C, align(64))]
pub(crate) struct Record {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
    /// A [`DropPath`].
    path: AtomicU64,
    /// The record under it in a [`Stack`](super::Stack).
    pub(super) below: Option<Box<Record>>,
    /// Its position in the plan that serves it.
    position: u32,
    pub(super) last_write: LastWrite,
    pub(crate) shape: Shape,
    is_reshaped: bool,
    /// Its place in its home's lists, with `key`.
    list: u32,
    home: Home,
    stream: Stream,
    /// What the front end made of the memory and wants to find again in the next life.
    pub(crate) view: OnceLock<Box<dyn View>>,
    /// What other streams do with the memory, as far as they said so.
    pub(super) uses: OnceLock<Box<Mutex<Uses>>>,
    /// The next record of a return stack.
    pub(crate) next: AtomicPtr<Record>,
    key: u64,
    /// When it came into an idle list, counted by the list's owner.
    pub(crate) seen: u64,
    /// The entry that recorded its allocation last, and the allocation's number there.
    pub(crate) recorded: (u32, u32),
    pub(crate) origin: Origin,
}

// A record of any other size shares lines with its neighbours on the heap, which other threads may write. What is written
// when a plan serves one lies in its first two lines.
#[cfg(not(gpucache_tsan))]
const _: () = assert!(size_of::<Record>() == 256 && std::mem::offset_of!(Record, is_reshaped) <= 128);

/// Where a block's memory goes when the block does.
#[derive(Debug)]
pub(crate) enum Origin {
    /// Back to the stream's backend.
    Device,
    Range(range::Block),
    /// It is a position in an arena.
    Arena(ArenaId),
    /// It has none, or somebody else has it.
    Nowhere,
}

impl Record {
    pub(crate) fn new(stream: &Stream, request: &Request<'_>, address: u64, origin: Origin) -> Record {
        Record {
            address,
            bytes: request.bytes,
            path: AtomicU64::new(path_on(stream, DropPath::UNPLANNED).number()),
            below: None,
            position: 0,
            last_write: LastWrite::default(),
            shape: Shape::new(request.dims),
            is_reshaped: false,
            list: 0,
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

    /// A record for what a plan serves in this arena, without memory yet.
    #[cold]
    pub(crate) fn of_arena(stream: &Stream, door: Option<&'static Door>, arena: ArenaId) -> Box<Record> {
        let nothing = Request { dtype: TypeId::of::<()>(), dims: &[0], len: 0, bytes: 0 };
        let mut record = Box::new(Record::new(stream, &nothing, 0, Origin::Nowhere));
        record.home.door = door;
        record.join(arena);
        record
    }

    /// Gives a record without memory another one, for another request.
    pub(crate) fn refill(&mut self, stream: &Stream, request: &Request<'_>, address: u64, origin: Origin) {
        self.address = address;
        self.bytes = request.bytes;
        self.set_path(path_on(stream, DropPath::UNPLANNED));
        self.origin = origin;
        self.is_reshaped = false;
        // Work of its last life wrote the memory that it had then.
        self.last_write.reset();
        self.shape.assign(request.dims);
        if self.stream.id() != stream.id() {
            self.stream = stream.clone();
        }
    }

    /// Lets a record without memory serve positions of this arena.
    pub(super) fn join(&mut self, arena: ArenaId) {
        self.origin = Origin::Arena(arena);
        self.set_path(path_on(&self.stream, DropPath::planned(arena)));
    }

    /// Gives a record of an arena its position for the life that begins, all but the shape.
    #[inline]
    pub(crate) fn serve_position(&mut self, bytes: usize, address: u64, position: u32) {
        self.address = address;
        self.bytes = bytes;
        self.position = position;
        self.last_write.reset();
    }

    /// Lets a record of an arena go its own way: from now on it has memory of the range.
    pub(crate) fn leave_arena(&mut self, block: range::Block, generation: Generation) {
        self.origin = Origin::Range(block);
        self.home.generation = generation;
    }

    /// Orders the stream behind what the view knows of foreign uses, since the next life may begin with work that looks at no
    /// view. The view over a position goes, as another position may have the memory next.
    #[inline]
    pub(crate) fn leave_view(&mut self) {
        let Some(view) = self.view.get_mut() else { return };
        if let Err(error) = view.follow_uses() {
            // Not even waiting was possible: the device is lost, and runs nothing any more.
            self.stream.keep(error);
        }
        if let Origin::Arena(arena) = self.origin {
            drop(self.view.take());
            self.set_path(path_on(&self.stream, DropPath::planned(arena)));
        }
    }

    /// Ends a life beside a plan: whoever had the bare address has it no more.
    #[inline]
    pub(crate) fn end_life(&mut self) {
        self.last_write.reset();
    }

    /// Gives the memory back where it came from; the record has none from then on.
    pub(crate) fn vacate(&mut self) {
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
            Origin::Arena(_) | Origin::Nowhere => {}
        }
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    #[inline]
    pub(crate) fn drop_path(&self) -> DropPath {
        DropPath::numbered(self.path.load(Relaxed))
    }

    /// Whether a drop has more to do than to give the memory back.
    #[inline]
    pub(crate) fn needs_care(&self) -> bool {
        self.drop_path() == DropPath::CARE
    }

    /// A drop has more to do than to give the memory back.
    pub(crate) fn take_care(&self) {
        self.path.store(DropPath::CARE.number(), Relaxed);
    }

    /// A drop has no more to do than to give the memory back, unless a device watches.
    pub(super) fn take_no_care(&mut self) {
        let own = self.arena().map_or(DropPath::UNPLANNED, DropPath::planned);
        self.set_path(path_on(&self.stream, own));
    }

    fn set_path(&mut self, path: DropPath) {
        *self.path.get_mut() = path.number();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn home(&self) -> Home {
        self.home
    }

    /// The arena in which it has a position.
    #[inline]
    pub(crate) fn arena(&self) -> Option<ArenaId> {
        if let Origin::Arena(arena) = self.origin { Some(arena) } else { None }
    }

    /// Its position in the plan, for a record of an arena.
    #[inline]
    pub(crate) fn position(&self) -> u32 {
        self.position
    }

    /// The place in its home's lists, for a record of no arena.
    #[inline]
    pub(crate) fn place(&self) -> Place {
        Place { list: self.list, key: self.key }
    }

    pub(crate) fn set_home(&mut self, home: Home, place: Place) {
        (self.home, self.list, self.key) = (home, place.list, place.key);
    }

    /// Keeps the memory out of the cache that served it, for good.
    #[cfg(feature = "cuda")]
    pub(crate) fn leave_home(&mut self) {
        self.home.generation = Generation::NEVER_KEPT;
    }

    /// Serves another shape of as many bytes; the next life has its list's again.
    pub(crate) fn reshape(&mut self, dims: &[usize]) {
        self.shape.assign(dims);
        self.is_reshaped = true;
    }

    /// Has its list's shape again, if it was given another one.
    #[inline(always)]
    pub(crate) fn restore_shape(&mut self, shape: &Shape) {
        if self.is_reshaped {
            self.shape.assign(shape.dims());
            self.is_reshaped = false;
        }
    }
}

/// The way of a drop on this stream, where there is no view.
fn path_on(stream: &Stream, otherwise: DropPath) -> DropPath {
    if stream.watches() { DropPath::CARE } else { otherwise }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.vacate();
    }
}
