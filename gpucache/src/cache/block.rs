//! A block of device memory: [`Record`] is what is known of it for all its lives, [`Block`] its use in one of them.
//!
//! Invariants: a record is owned by exactly one of a `Block`, an idle list, or a return stack; its memory is released
//! once, when the record goes. Its `shape` is that of the request it serves.
#![allow(unsafe_code)]

use std::any::Any;
use std::mem::ManuallyDrop;
use std::sync::OnceLock;
use std::sync::atomic::AtomicPtr;

use super::owner::Cache;
use super::{current, registry};
use crate::base::error::Result;
use crate::base::key::{Request, Shape};
use crate::device::{Stream, process_exits};

/// Memory on a stream, in use until dropped. A drop hands it back to the cache that served it, from any thread.
pub(crate) struct Block(ManuallyDrop<Box<Record>>);

/// A block of memory through all its lives.
pub(crate) struct Record {
    address: u64,
    bytes: usize,
    len: usize,
    shape: Shape,
    stream: Stream,
    home: Home,
    /// What the front end made of the memory and wants to find again in the next life.
    view: OnceLock<Box<dyn View>>,
    /// The next record of a return stack.
    pub(super) next: AtomicPtr<Record>,
    /// False once the memory went elsewhere; then there is nothing to release.
    holds_memory: bool,
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
    /// The cache's generation that allocated it: another one releases it when it returns.
    pub(super) generation: u64,
    /// Its list within that generation.
    pub(super) list: u32,
}

impl Home {
    /// The generation of blocks that no list keeps.
    pub(super) const NEVER_KEPT: u64 = 0;
}

impl Block {
    /// Memory for `request` on `stream`: from the innermost scope's cache, or straight from the device where there is
    /// none.
    #[inline]
    pub(crate) fn allocate(stream: &Stream, request: &Request<'_>) -> Result<Block> {
        stream.check()?;
        Ok(Block(ManuallyDrop::new(current::allocate(stream, request)?)))
    }

    /// Memory that somebody else allocated, and that `view` releases when it is dropped.
    #[cfg(feature = "cuda")]
    pub(crate) fn adopt(stream: &Stream, request: &Request<'_>, address: u64, view: Box<dyn View>) -> Block {
        let mut record = Record::new(stream, request, address);
        record.holds_memory = false;
        record.view = OnceLock::from(view);
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
    }

    /// What the front end keeps with the memory; made by `make` once, found again in the next lives.
    #[cfg(feature = "cuda")]
    pub(crate) fn view<V: View>(&self, make: impl FnOnce() -> V) -> Option<&V> {
        let view: &dyn Any = &**self.0.view.get_or_init(|| Box::new(make()));
        view.downcast_ref()
    }

    /// The view that was made, exclusively.
    #[cfg(feature = "cuda")]
    pub(crate) fn view_mut<V: View>(&mut self) -> Option<&mut V> {
        let view: &mut dyn Any = &mut **self.0.view.get_mut()?;
        view.downcast_mut()
    }

    /// Takes the view out and leaves the memory to it: this block releases nothing any more.
    #[cfg(feature = "cuda")]
    pub(crate) fn detach<V: View>(mut self) -> Option<Box<V>> {
        let view: Box<dyn Any> = self.0.view.take()?;
        let view = view.downcast().ok()?;
        if std::mem::take(&mut self.0.holds_memory) {
            self.0.stream.meter().freed(self.0.bytes);
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
        let record = unsafe { ManuallyDrop::take(&mut self.0) };
        match record.home.cache {
            Some(cache) => cache.give_back(record),
            None => drop(record),
        }
    }
}

impl Record {
    fn new(stream: &Stream, request: &Request<'_>, address: u64) -> Record {
        Record {
            address,
            bytes: request.bytes,
            len: request.len,
            shape: Shape::new(request.dims),
            stream: stream.clone(),
            home: Home::default(),
            view: OnceLock::new(),
            next: AtomicPtr::default(),
            holds_memory: true,
        }
    }

    /// Memory straight from the device. If it has none left, idle memory of all caches goes back to it first.
    pub(super) fn allocate(stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
        let before = registry::releases();
        let address = stream.allocate(request.bytes).or_else(|error| {
            // Another thread in need may have given back first what there was.
            let helps = || registry::release_idle() > 0 || registry::releases() != before;
            if error.is_out_of_memory() && helps() { stream.allocate(request.bytes) } else { Err(error) }
        })?;
        Ok(Box::new(Record::new(stream, request, address)))
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

    #[inline]
    pub(super) fn restore_shape(&mut self, shape: &Shape) {
        // Only `reshape` makes them differ; comparing is cheaper than copying.
        if self.shape.dims() != shape.dims() {
            self.shape = shape.clone();
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if process_exits() {
            std::mem::forget(self.view.take());
            return;
        }
        // The view may order the stream behind foreign uses of the memory: it goes first.
        drop(self.view.take());
        if self.holds_memory {
            // SAFETY: `allocate` of this stream gave `bytes` at `address`; a record is dropped once, and by then neither
            // a block nor a list has it, so no later work uses the memory.
            unsafe { self.stream.release(self.address, self.bytes) };
        }
    }
}
