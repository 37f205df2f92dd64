//! A block of device memory: [`Record`] is what is known of it for all its lives, [`Block`] its use in one of them.
//!
//! Invariants: a record is owned by exactly one of a `Block`, an idle list, a plan, or a return stack; its memory is
//! released once, when the record goes. Its `shape` is that of the request it serves.
#![allow(unsafe_code)]

use std::any::{Any, TypeId};
use std::mem::ManuallyDrop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

use super::owner::Cache;
use super::{current, supply};
use crate::base::error::Result;
use crate::base::key::{Extent, Request, Shape, same_dims};
use crate::device::{Stream, process_exits};
use crate::range;

/// Memory on a stream, in use until dropped. A drop hands it back to the cache that served it, from any thread.
pub(crate) struct Block(ManuallyDrop<Box<Record>>);

/// A block of memory through all its lives.
pub(crate) struct Record {
    address: u64,
    bytes: usize,
    len: usize,
    shape: Shape,
    is_reshaped: bool,
    stream: Stream,
    home: Home,
    /// Whether a drop has more to do than to give the memory back: there is a view, or a device that watches.
    needs_care: AtomicBool,
    /// What the front end made of the memory and wants to find again in the next life.
    view: OnceLock<Box<dyn View>>,
    /// The next record of a return stack.
    pub(super) next: AtomicPtr<Record>,
    /// When it came into an idle list, counted by the list's owner.
    pub(super) seen: u64,
    /// The entry that recorded its allocation last, and the allocation's number there.
    pub(super) recorded: (u32, u32),
    origin: Origin,
}

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

/// A front end's own object over a block's memory, which knows of uses by other streams.
pub(crate) trait View: Any + Send + Sync {
    /// Runs `operation`, which reads the memory on the block's stream, in order with the view's uses.
    fn read(&self, operation: &mut dyn FnMut() -> Result<()>) -> Result<()>;

    /// Runs `operation`, which writes the memory on the block's stream, in order with the view's uses.
    fn write(&mut self, operation: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}

/// Where a record returns to.
#[derive(Clone, Copy, Default)]
pub(super) struct Home {
    pub(super) cache: Option<&'static Cache>,
    /// The cache's generation that allocated it: another one releases it when it returns. For a place in a plan's block
    /// the epoch of that block.
    pub(super) generation: u64,
    /// Its list within that generation, or its position in the plan.
    pub(super) list: u32,
}

impl Home {
    /// The generation of blocks that no list keeps.
    pub(super) const NEVER_KEPT: u64 = u64::MAX;
}

impl Block {
    /// What the innermost scope's plan expects next, if that is it and nothing else is to be seen to.
    #[inline]
    pub(crate) fn planned(stream: &Stream, dims: &[usize], extent: Extent) -> Option<Block> {
        if stream.needs_care() {
            return None;
        }
        Some(Block(ManuallyDrop::new(current::planned(stream, dims, extent)?)))
    }

    /// Memory for `request` on `stream`: from the innermost scope's cache, or straight from the device where there is
    /// none.
    pub(crate) fn allocate(stream: &Stream, request: &Request<'_>) -> Result<Block> {
        stream.check()?;
        let record = current::allocate(stream, request)?;
        if stream.watches() {
            stream.handed_out(record.address, record.bytes);
        }
        Ok(Block(ManuallyDrop::new(record)))
    }

    /// Memory that somebody else allocated, and that `view` releases when it is dropped.
    #[cfg(feature = "cuda")]
    pub(crate) fn adopt(stream: &Stream, request: &Request<'_>, address: u64, view: Box<dyn View>) -> Block {
        let mut record = Record::new(stream, request, address, Origin::Nowhere);
        record.view = OnceLock::from(view);
        record.needs_care = AtomicBool::new(true);
        Block(ManuallyDrop::new(Box::new(record)))
    }

    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.0.address
    }

    /// The address as a place in memory, for kernels that take a pointer to it.
    #[cfg(feature = "cuda")]
    pub(crate) fn address_ref(&self) -> &u64 {
        &self.0.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len
    }

    pub(crate) fn dims(&self) -> &[usize] {
        self.0.shape.dims()
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.0.stream
    }

    /// Gives the block another shape of as many bytes; its next life has the old one again.
    pub(crate) fn reshape(&mut self, dims: &[usize]) {
        self.0.shape = Shape::new(dims);
        self.0.is_reshaped = true;
    }

    /// What the front end keeps with the memory; made by `make` once, found again in the next lives.
    #[cfg(feature = "cuda")]
    pub(crate) fn view<V: View>(&self, make: impl FnOnce() -> V) -> Option<&V> {
        self.0.needs_care.store(true, Relaxed);
        let view: &dyn Any = &**self.0.view.get_or_init(|| Box::new(make()));
        view.downcast_ref()
    }

    /// The view that was made, exclusively.
    #[cfg(feature = "cuda")]
    pub(crate) fn view_mut<V: View>(&mut self) -> Option<&mut V> {
        let view: &mut dyn Any = &mut **self.0.view.get_mut()?;
        view.downcast_mut()
    }

    /// Whether the memory can be left to a view: it is the block's own allocation, or the view's already.
    #[cfg(feature = "cuda")]
    pub(crate) fn can_leave(&self) -> bool {
        let has_owner = matches!(self.0.origin, Origin::Nowhere) && self.0.view.get().is_some();
        self.0.bytes > 0 && (has_owner || matches!(self.0.origin, Origin::Device))
    }

    /// Takes the view out and leaves the memory to it: this block releases nothing any more.
    #[cfg(feature = "cuda")]
    pub(crate) fn detach<V: View>(mut self) -> Option<Box<V>> {
        let view: Box<dyn Any> = self.0.view.take()?;
        let view = view.downcast().ok()?;
        if let Origin::Device = std::mem::replace(&mut self.0.origin, Origin::Nowhere) {
            self.0.stream.meter().freed(self.0.bytes as u64);
        }
        self.0.home.generation = Home::NEVER_KEPT;
        Some(view)
    }

    /// Runs an operation that reads the memory, behind what other streams wrote.
    pub(super) fn reading(&self, mut operation: impl FnMut() -> Result<()>) -> Result<()> {
        match self.0.view.get() {
            Some(view) => view.read(&mut operation),
            None => operation(),
        }
    }

    /// Runs an operation that writes the memory, behind what other streams read and wrote.
    pub(super) fn writing(&mut self, operation: impl Fn(&Stream, u64) -> Result<()>) -> Result<()> {
        let Record { view, stream, address, .. } = &mut **self.0;
        match view.get_mut() {
            Some(view) => view.write(&mut || operation(stream, *address)),
            None => operation(stream, *address),
        }
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the field is taken here alone, and a value is dropped once.
        let mut record = unsafe { ManuallyDrop::take(&mut self.0) };
        if !record.needs_care.load(Relaxed) {
            match current::give_back(record) {
                None => return,
                Some(rest) => record = rest,
            }
        }
        if record.stream.watches() {
            record.stream.taken_back(record.address, record.bytes);
        }
        match record.home.cache {
            Some(cache) => cache.give_back(record),
            None => drop(record),
        }
    }
}

impl Record {
    pub(super) fn new(stream: &Stream, request: &Request<'_>, address: u64, origin: Origin) -> Record {
        Record {
            address,
            bytes: request.bytes,
            len: request.len,
            shape: Shape::new(request.dims),
            is_reshaped: false,
            stream: stream.clone(),
            home: Home::default(),
            needs_care: AtomicBool::new(stream.watches()),
            view: OnceLock::new(),
            next: AtomicPtr::default(),
            seen: 0,
            recorded: (0, 0),
            origin,
        }
    }

    /// Gives a record without memory another one, for another request.
    pub(super) fn refill(&mut self, stream: &Stream, request: &Request<'_>, address: u64, origin: Origin) {
        self.address = address;
        self.bytes = request.bytes;
        self.len = request.len;
        self.origin = origin;
        self.is_reshaped = false;
        if !same_dims(request.dims, self.shape.dims()) {
            self.shape = Shape::new(request.dims);
        }
        if self.stream.id() != stream.id() {
            self.stream = stream.clone();
        }
    }

    /// Gives the memory back where it came from; the record has none from then on.
    pub(super) fn vacate(&mut self) {
        let (view, origin) = (self.view.take(), std::mem::replace(&mut self.origin, Origin::Nowhere));
        if process_exits() {
            return std::mem::forget(view);
        }
        // The view may order the stream behind foreign uses of the memory: it goes first.
        drop(view);
        match origin {
            // SAFETY: `allocate` of this stream gave `bytes` at `address`, and the origin is taken once. A record is
            // vacated when neither a block nor a list has it, so no later work uses the memory.
            Origin::Device => unsafe { self.stream.release(self.address, self.bytes) },
            Origin::Range(block) => supply::free(&self.stream, block),
            Origin::Plan | Origin::Nowhere => {}
        }
    }

    /// A record for what a plan serves, without memory yet.
    #[cold]
    pub(super) fn planned(stream: &Stream, cache: Option<&'static Cache>) -> Box<Record> {
        let nothing = Request { dtype: TypeId::of::<()>(), dims: &[0], len: 0, bytes: 0 };
        let mut record = Box::new(Record::new(stream, &nothing, 0, Origin::Plan));
        record.home.cache = cache;
        record
    }

    /// Gives a planned record its place for the life that begins, all but the shape.
    #[inline]
    pub(super) fn place(&mut self, extent: Extent, address: u64, epoch: u64, position: u32) {
        self.address = address;
        self.bytes = extent.bytes;
        self.len = extent.len;
        (self.home.generation, self.home.list) = (epoch, position);
    }

    /// Takes a shape on, if there is room for it in place.
    #[inline]
    pub(super) fn take_shape(&mut self, dims: &[usize]) -> bool {
        self.shape.set(dims)
    }

    /// Lets a planned record go its own way: from now on it has memory of the range.
    pub(super) fn evict(&mut self, block: range::Block, generation: u64) {
        self.origin = Origin::Range(block);
        self.home.generation = generation;
    }

    /// Orders the stream behind foreign uses of a planned record's memory, which another position may have next.
    #[inline]
    pub(super) fn leave_view(&mut self) {
        if self.view.get().is_some() && matches!(self.origin, Origin::Plan) {
            drop(self.view.take());
            *self.needs_care.get_mut() = self.stream.watches();
        }
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn home(&self) -> Home {
        self.home
    }

    pub(super) fn set_home(&mut self, home: Home) {
        self.home = home;
    }

    /// Has its list's shape again, if it was given another one.
    #[inline]
    pub(super) fn restore_shape(&mut self, shape: &Shape) {
        if self.is_reshaped {
            self.set_shape(shape);
            self.is_reshaped = false;
        }
    }

    pub(super) fn set_shape(&mut self, shape: &Shape) {
        self.shape = shape.clone();
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.vacate();
    }
}
