//! A record, and what each allocation and drop does with one.
//!
//! A [`Dims`] keeps up to [`INLINE`] dimensions in place. More dimensions lie in heap memory, which it keeps for the next long shape. So a
//! `Dims` that has had a shape of some length takes any other shape up to this length without an allocation.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use super::identity::{ArenaId, DropPath, Generation, ListPlace};
use super::last_write::LastWrite;
use super::uses::Uses;
use super::{Door, View};
use crate::base::sync::{Mutex, OnceLock};
use crate::device::Stream;
use crate::range;

/// A block of memory through all its lives. The fields that a life in a plan changes lie together, most of them in one cache line of the
/// processor.
#[repr(C, align(64))]
pub(crate) struct Record {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
    /// A [`DropPath`] as a number.
    pub(super) path: AtomicU64,
    /// The record under it in a [`RecordStack`].
    pub(super) below: Option<Box<Record>>,
    /// Its position in the plan that serves it.
    pub(super) position: u32,
    pub(super) last_write: LastWrite,
    pub(crate) shape: Dims,
    pub(super) is_reshaped: bool,
    /// Whether the planner of its cache wants to be told of its drop.
    pub(super) is_watched: bool,
    /// Its place in its home's lists, together with `key`.
    pub(super) list: u32,
    /// The door of the cache to which it returns.
    pub(crate) door: Option<&'static Door>,
    /// The cache's generation that allocated it. If an older generation's record returns, it was invalidated. A position of a plan has no
    /// generation of its own, as long as its arena exists.
    pub(crate) generation: Generation,
    pub(super) stream: Stream,
    /// The front end's object over the memory, kept for the next life.
    pub(crate) view: OnceLock<Box<dyn View>>,
    /// The uses of the memory by other streams, as far as they were announced.
    pub(super) uses: OnceLock<Box<Mutex<Uses>>>,
    /// The next record of a return stack.
    pub(crate) next: AtomicPtr<Record>,
    pub(super) key: u64,
    /// When it came into an idle list, counted by the list's owner.
    pub(crate) seen: u64,
    /// The last entry that recorded its allocation, and the number of the allocation in that entry.
    pub(crate) recorded: (u32, u32),
    pub(crate) origin: Origin,
}

// A record of any other size would share cache lines with its neighbours on the heap, which other threads may write. The fields that are
// written when a plan serves a record lie in its first two lines. With 32-bit pointers a record is smaller.
#[cfg(all(not(gpucache_tsan), target_pointer_width = "64"))]
const _: () = assert!(size_of::<Record>() == 256 && std::mem::offset_of!(Record, is_reshaped) <= 128);

/// Where a block's memory goes at the end of the block.
pub(crate) enum Origin {
    /// Back to the stream's backend.
    Device,
    Range(range::RangeBlock),
    /// It is a position in an arena.
    Arena(ArenaId),
    /// It is a part of a block that has another owner, and that goes home with its last part.
    Part(Arc<dyn Any + Send + Sync>),
    /// The record has no memory, or other code owns the memory.
    Nowhere,
}

/// The dimensions of an array.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Dims {
    rank: usize,
    dims: [usize; INLINE],
    /// All dimensions of a shape that is too long for `dims`. Otherwise this memory is kept for the next such shape.
    long: Box<[usize]>,
}

/// Records without memory, the last one on top: its cache lines are the most likely to be in the processor's cache.
#[derive(Default)]
pub(crate) struct RecordStack(Option<Box<Record>>);

/// The number of dimensions in place: as many as any array of a model has. A record with them has four cache lines.
const INLINE: usize = 8;

impl Record {
    /// Gives a record of an arena its position for the next life: all but the shape.
    #[inline]
    pub(crate) fn serve_position(&mut self, bytes: usize, address: u64, position: u32) {
        self.address = address;
        self.bytes = bytes;
        self.position = position;
        self.last_write = LastWrite::default();
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    #[inline]
    pub(crate) fn drop_path(&self) -> DropPath {
        DropPath(self.path.load(Relaxed))
    }

    /// Whether a drop has more to do than to return the memory.
    #[inline]
    pub(crate) fn needs_care(&self) -> bool {
        self.drop_path() == DropPath::CARE
    }

    /// Notes that a drop has more to do than to return the memory.
    pub(crate) fn take_care(&self) {
        self.path.store(DropPath::CARE.0, Relaxed);
    }

    /// Makes the drop tell the record's cache, in this life.
    pub(crate) fn watch(&mut self) {
        self.is_watched = true;
        self.take_care();
    }

    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    pub(super) fn set_path(&mut self, path: DropPath) {
        *self.path.get_mut() = path.0;
    }

    /// Whether it returns by this door.
    #[inline(always)]
    pub(crate) fn returns_to(&self, door: &Door) -> bool {
        // Compares addresses: one comparison, since null is no door's address.
        self.door.map_or(std::ptr::null(), std::ptr::from_ref) == std::ptr::from_ref(door)
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

    /// Its place in its home's lists, for a record of no arena.
    #[inline]
    pub(crate) fn place(&self) -> ListPlace {
        ListPlace { list: self.list, key: self.key }
    }

    pub(crate) fn set_home(&mut self, door: &'static Door, generation: Generation, place: ListPlace) {
        (self.door, self.generation, self.list, self.key) = (Some(door), generation, place.list, place.key);
    }

    /// Gives it another shape of as many bytes. The next life has its list's shape again.
    pub(crate) fn reshape(&mut self, dims: &[usize]) {
        self.shape.assign(dims);
        self.is_reshaped = true;
    }

    /// Gives it its list's shape again, if it had another one.
    #[inline(always)]
    pub(crate) fn restore_shape(&mut self, shape: &Dims) {
        if self.is_reshaped {
            self.shape.assign(shape.dims());
            self.is_reshaped = false;
        }
    }
}

impl RecordStack {
    #[inline]
    pub(crate) fn push(&mut self, mut record: Box<Record>) {
        let nothing = std::mem::replace(&mut record.below, self.0.take());
        // A record that is on no stack has none below. To forget the empty value costs nothing; to drop it would.
        std::mem::forget(nothing);
        self.0 = Some(record);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Box<Record>> {
        let mut top = self.0.take()?;
        self.0 = top.below.take();
        Some(top)
    }

    /// Makes all of them serve positions of this arena.
    pub(crate) fn join(&mut self, arena: ArenaId) {
        let mut next = &mut self.0;
        while let Some(record) = next {
            record.join(arena);
            next = &mut record.below;
        }
    }
}

impl Drop for RecordStack {
    fn drop(&mut self) {
        // One after the other, since a recursive drop could overflow the stack.
        while self.pop().is_some() {}
    }
}

impl Dims {
    pub(crate) fn new(dims: &[usize]) -> Dims {
        let mut shape = Dims { rank: 0, dims: [0; INLINE], long: Box::default() };
        shape.assign(dims);
        shape
    }

    /// Takes another shape. Allocates if it is longer than all shapes before.
    #[inline]
    pub(crate) fn assign(&mut self, dims: &[usize]) {
        if !self.set(dims) {
            self.assign_long(dims);
        }
    }

    #[cold]
    fn assign_long(&mut self, dims: &[usize]) {
        if self.long.len() < dims.len() {
            self.long = vec![0; dims.len().next_power_of_two()].into();
        }
        self.long[..dims.len()].copy_from_slice(dims);
        self.rank = dims.len();
    }

    /// Takes another shape if that fits in place. Returns whether it did.
    #[inline(always)]
    pub(crate) fn set(&mut self, dims: &[usize]) -> bool {
        let has_room = Dims::has_room(dims);
        if has_room {
            self.rank = dims.len();
            std::iter::zip(&mut self.dims, dims).for_each(|(place, dim)| *place = *dim);
        }
        has_room
    }

    /// Whether a shape of these dimensions fits in place.
    #[inline(always)]
    pub(crate) fn has_room(dims: &[usize]) -> bool {
        dims.len() <= INLINE
    }

    #[inline]
    pub(crate) fn dims(&self) -> &[usize] {
        match self.rank {
            0..=INLINE => &self.dims[..self.rank],
            rank => &self.long[..rank],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_any_rank_keep_their_dims() {
        let (mut shape, mut set) = (Dims::new(&[1; 9]), Dims::new(&[]));
        for rank in (0..40).chain((0..40).rev()) {
            let dims: Vec<usize> = (1..=rank).collect();
            assert_eq!(Dims::new(&dims).dims(), dims);
            shape.assign(&dims);
            assert_eq!(shape.dims(), dims, "after another rank");
            assert_eq!(set.set(&dims), Dims::has_room(&dims));
            assert_eq!(set.dims().len(), rank.min(INLINE));
        }
    }
}
