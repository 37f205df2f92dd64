//! A block of device memory in one of its lives. Arrays are made of blocks.
//!
//! Invariant: a block owns its record until its drop. The drop gives the record back to the cache that served it.
#![allow(unsafe_code)]

use std::any::Any;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::{current, supply, traced};
use crate::base::error::{Error, Result};
use crate::base::held::assert_nothing_held;
use crate::base::sync::OnceLock;
use crate::device::Stream;
use crate::record::{Door, Fence, Generation, Origin, Outcome, Record, Request, View};

/// Memory on a stream, in use until it is dropped. The drop returns it to the cache that served it, from any thread.
pub struct Block(pub(super) ManuallyDrop<Box<Record>>);

impl Block {
    /// The block that the innermost scope's plan expects next, if it matches this request. `None` while a trace is on.
    #[inline(always)]
    pub fn planned(stream: &Stream, dims: &[usize], bytes: usize) -> Option<Block> {
        current::serve_planned(stream, dims, bytes, false).map(Block::of)
    }

    /// Memory for `request` on `stream`: from the innermost scope's cache, or straight from the device outside of scopes.
    #[inline]
    pub fn allocate(stream: &Stream, request: &Request<'_>) -> Result<Block> {
        let noticed = stream.has_notice();
        let record = if noticed { Block::allocate_noticed(stream, request)? } else { Block::find(stream, request)? };
        Ok(Block::handed_out(stream, record))
    }

    /// Memory of no scope, from the device's range, for arrays that outlive entries and return at any time.
    pub fn of_no_scope(stream: &Stream, request: &Request<'_>) -> Result<Block> {
        stream.check()?;
        let record = traced::told(stream, request, || supply::of_no_scope(stream, request))?;
        Ok(Block::handed_out(stream, record))
    }

    /// Memory of no scope on a stream whose memory is reserved.
    #[cfg(any(feature = "cuda", test))]
    pub(super) fn reserved(stream: &Stream, request: &Request<'_>) -> Result<Block> {
        let record = traced::told(stream, request, || supply::reserved(stream, request))?;
        Ok(Block::handed_out(stream, record))
    }

    /// Makes a block of a record. Reports it to the device if the device watches allocations.
    #[inline(always)]
    pub(super) fn handed_out(stream: &Stream, record: Box<Record>) -> Block {
        if stream.watches() {
            stream.handed_out(record.address, record.bytes);
        }
        Block::of(record)
    }

    /// A record from the innermost scope, or straight from the device outside of scopes.
    #[inline(always)]
    fn find(stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
        current::allocate(stream, request).unwrap_or_else(|| traced::allocate(stream, request))
    }

    /// As [`allocate`](Block::allocate), if the stream has a failure to return or its memory is reserved.
    #[cold]
    fn allocate_noticed(stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
        stream.check()?;
        if let Some(here) = stream.here()? {
            return Ok(Block::allocate(&here, request)?.into_record());
        }
        match stream.instead() {
            None => Block::find(stream, request),
            Some(reserved) if reserved.is_reserved() => {
                traced::told(stream, request, || supply::reserved(&reserved, request))
            }
            Some(home) => Block::find(&home, request),
        }
    }

    /// Puts a record in use. The block's drop gives it back.
    #[inline(always)]
    pub(super) fn of(record: Box<Record>) -> Block {
        Block(ManuallyDrop::new(record))
    }

    pub(super) fn into_record(self) -> Box<Record> {
        // SAFETY: `self` moves into a `ManuallyDrop`, so its drop does not run, and nobody else takes the field.
        unsafe { ManuallyDrop::take(&mut ManuallyDrop::new(self).0) }
    }

    /// Notes that work already on another stream of the device may use the memory. The caller then drops the block.
    pub fn used_by(&self, stream: &Stream) {
        self.0.used_by(stream);
    }

    /// Tells the cache that served the block that another stream than the block's own frees it.
    pub fn note_freed_elsewhere(&self) {
        self.0.door.and_then(Door::keeper).into_iter().for_each(|keeper| keeper.note_freed_elsewhere());
    }

    /// Memory that other code allocated. `view` releases it when the view is dropped.
    ///
    /// # Safety
    /// The bytes of the request lie at `address` on the stream's device until `view` is dropped. Nobody else uses them without the
    /// view's knowledge.
    pub unsafe fn adopt(stream: &Stream, request: &Request<'_>, address: u64, view: Box<dyn View>) -> Block {
        let mut record = Record::new(stream, request, address, Origin::Nowhere);
        record.view = OnceLock::from(view);
        record.take_care();
        Block(ManuallyDrop::new(Box::new(record)))
    }

    /// The address, for code that uses it on the block's own stream without notice, behind all uses announced so far.
    pub fn bare_address(&self) -> u64 {
        self.0.stream().note_unknown_work();
        self.note_use(self.0.stream());
        if let Err(error) = self.0.bare() {
            self.0.stream().keep(error);
        }
        self.0.address
    }

    /// Whether somebody got the bare address, so that work on the block's own stream may write the memory without notice.
    pub fn is_bare(&self) -> bool {
        self.0.is_bare()
    }

    /// Notes that all work of the last write that another stream announced (by [`write_on`](Block::write_on)) is on that stream now. Others
    /// then wait for this point. Otherwise they wait for all work that is on the stream when they wait.
    pub fn end_write_on(&self, stream: &Stream) {
        self.0.end_write_on(stream);
    }

    /// Notes that the work which writes the block is now on its own stream. Other streams then wait for this point. Otherwise they
    /// wait for all work that is on the stream when they wait.
    pub fn note_write(&self) {
        self.0.note_write();
    }

    /// The address as a place in memory, for kernels that take a pointer to the address.
    pub fn address_ref(&self) -> &u64 {
        &self.0.address
    }

    /// Gives the block another shape of as many bytes. The block's next life has the old shape again.
    pub fn reshape(&mut self, dims: &[usize]) {
        self.0.reshape(dims);
    }

    /// Whether other streams may use the block, as far as they announced it.
    pub fn is_used_elsewhere(&self) -> bool {
        self.0.needs_care() && self.0.has_uses()
    }

    /// Makes the block's own stream wait for the uses that other streams announced or that the view knows.
    ///
    /// # Errors
    /// A failure to order the streams. The uses then go on.
    pub fn end_uses(&mut self) -> Result<()> {
        self.0.forget_write();
        let ended = if self.0.needs_care() { self.0.end_uses() } else { Ok(()) };
        self.note_use(self.0.stream());
        ended
    }

    /// The value that the front end keeps with the memory. `make` makes it once; later lives of the memory find it again.
    pub fn view<V: View>(&self, make: impl FnOnce() -> V) -> Option<&V> {
        self.0.take_care();
        let view: &dyn Any = &**self.0.view.get_or_init(|| Box::new(make()));
        view.downcast_ref()
    }

    /// The view, if one was made, for exclusive use.
    pub fn view_mut<V: View>(&mut self) -> Option<&mut V> {
        let view: &mut dyn Any = &mut **self.0.view.get_mut()?;
        view.downcast_mut()
    }

    /// Whether a view can take the memory over: the block is an allocation of its own, or the view owns the memory already, and no graph
    /// keeps it.
    pub fn can_leave(&self) -> bool {
        let has_owner =
            matches!(self.0.origin, Origin::Nowhere) && self.0.view.get().is_some_and(|view| !view.is_pinned());
        self.0.bytes > 0 && !self.0.is_kept() && (has_owner || matches!(self.0.origin, Origin::Device))
    }

    /// Whether the memory has to stay at its address, since other code has that address.
    pub fn is_pinned(&self) -> bool {
        self.0.view.get().is_some_and(|view| view.is_pinned())
    }

    /// Takes the view out and leaves the memory to it. This block releases nothing any more.
    pub fn detach<V: View>(mut self) -> Option<Box<V>> {
        let view: Box<dyn Any> = self.0.view.take()?;
        let view = view.downcast().ok()?;
        if let Origin::Device = std::mem::replace(&mut self.0.origin, Origin::Nowhere) {
            self.0.stream().meter().freed(self.0.bytes as u64);
            #[cfg(feature = "cuda")]
            crate::device::disown(self.0.address);
        }
        // The cache that served the memory never keeps it again.
        self.0.generation = Generation::NEVER_KEPT;
        Some(view)
    }

    /// Runs an operation that reads the memory, ordered behind the writes of other streams.
    ///
    /// # Errors
    /// Errors of the operation, and the failure of late work that should have written the memory, if it is known by then.
    pub(super) fn reading(&self, operation: impl FnOnce() -> Result<()>) -> Result<()> {
        self.read_on(self.stream())?;
        operation()?;
        self.check_outcome()
    }

    /// The outcome of the last work that writes the memory, if that is late work of the host.
    pub fn outcome(&self) -> Option<Arc<Outcome>> {
        self.0.outcome()
    }

    /// Keeps the outcome of the last work that writes the memory.
    pub fn set_outcome(&mut self, outcome: Option<Arc<Outcome>>) {
        self.0.set_outcome(outcome);
    }

    /// # Errors
    /// [`is_panic`](crate::Error::is_panic) if late work that should have written the memory has failed.
    #[inline]
    pub fn check_outcome(&self) -> Result<()> {
        self.outcome().map_or(Ok(()), |outcome| outcome.check().map_err(Error::panicked))
    }

    /// Lets work that is put on `stream` from now on read the memory, until the block is dropped.
    ///
    /// # Errors
    /// A failure of the device; a stream of another device; a graph that is captured.
    #[inline]
    pub fn read_on(&self, stream: &Stream) -> Result<()> {
        if let Some(here) = stream.here()? {
            return self.read_on(&here);
        }
        if self.begins_use(stream) { self.0.read_on(stream) } else { Ok(()) }
    }

    /// Lets work that is put on `stream` from now on write the memory, until the block is dropped or used in another way.
    ///
    /// # Errors
    /// As for [`read_on`](Block::read_on).
    #[inline]
    pub fn write_on(&mut self, stream: &Stream) -> Result<()> {
        if let Some(here) = stream.here()? {
            return self.write_on(&here);
        }
        self.0.forget_write();
        if self.begins_use(stream) { self.0.write_on(stream) } else { Ok(()) }
    }

    /// Notes a use by work on `stream`. Returns whether that work may have to wait for others, or others for it.
    #[inline]
    fn begins_use(&self, stream: &Stream) -> bool {
        self.note_use(stream);
        let is_elsewhere = self.0.stream().queue() != stream.queue();
        if is_elsewhere {
            // A graph would not repeat that the streams wait for each other.
            self.0.stream().note_gap_between(stream);
        }
        is_elsewhere || self.0.needs_care()
    }

    /// Orders the block's own stream behind a use by another stream that ended at `fence`, and behind no later work of it.
    ///
    /// # Errors
    /// A failure of the device; a graph that is captured.
    pub fn follow(&mut self, fence: &Fence) -> Result<()> {
        self.0.follow_uses(std::slice::from_ref(fence))
    }

    /// Keeps the block for the stream's open reservation, unless that reservation already covers its memory.
    #[inline]
    fn note_use(&self, stream: &Stream) {
        if let Some(reservation) = stream.reservation()
            && reservation.id() != self.0.stream().id()
        {
            self.0.keep_for(&reservation);
        }
    }

    /// Runs an operation that writes all of the memory, ordered behind the reads and writes of other streams.
    pub(super) fn writing(&mut self, operation: impl FnOnce(&Stream, u64) -> Result<()>) -> Result<()> {
        if self.0.needs_care() {
            self.0.end_uses()?;
        }
        // No capture by this thread begins within the operation, and a capture by another thread makes it fail.
        let has_notice = self.0.stream().has_notice();
        has_notice.then(|| self.note_use(self.0.stream()));
        operation(self.0.stream(), self.0.address)?;
        self.0.note_write_noticed(has_notice);
        self.0.set_outcome(None);
        Ok(())
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {:#x}", self.0.bytes, self.0.address)
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: only this line takes the field, and a value is dropped once.
        let record = unsafe { ManuallyDrop::take(&mut self.0) };
        give_back(record);
    }
}

/// Returns a record. A record that a plan served returns here without a further call.
#[inline(never)]
fn give_back(record: Box<Record>) {
    if let Some(record) = current::take_back_planned(record, false).and_then(Block::keep_for_capture) {
        give_back_unplanned(record);
    }
}

/// Returns a record that no plan takes back: to the innermost scope if that served it, and otherwise home. With due care, reservations may
/// keep it first, and a device that watches is told.
#[inline(never)]
fn give_back_unplanned(record: Box<Record>) {
    // The drop may end a plan of the scope, and a subscriber is told of that.
    assert_nothing_held();
    match current::keeping_untraced() {
        _ if record.needs_care() => give_back_with_care(record),
        Some(cache) if record.returns_to(&cache.door) => current::owner(cache).put(record),
        _ => give_back_home(record),
    }
}

/// Returns a record to the cache that served it, wherever that is. Without such a cache the memory is released.
#[inline(never)]
fn give_back_home(record: Box<Record>) {
    traced::freed(&record);
    let Some(record) = current::take_back_planned(record, true) else { return };
    match record.door.and_then(Door::keeper) {
        Some(keeper) => keeper.take_back(record),
        None => drop(record),
    }
}

#[cold]
fn give_back_with_care(record: Box<Record>) {
    keep_or_tell(record).into_iter().for_each(give_back_home);
}

/// Keeps a dropped record for each reservation that used it, one after the other. Returns the record once all of them have ended,
/// and reports that to a device that watches.
#[cold]
fn keep_or_tell(record: Box<Record>) -> Option<Box<Record>> {
    let mut record = keep_behind_capture(record)?;
    while let Some(mut streams) = record.take_reservations() {
        let Some(stream) = streams.pop() else { break };
        streams.iter().for_each(|other| record.keep_for(other));
        match stream.keep_reserved(Box::new(Block::of(record))) {
            Ok(()) => return None,
            Err(block) => record = block.into_record(),
        }
    }
    if record.stream().watches() {
        record.stream().taken_back(record.address, record.bytes);
    }
    Some(record)
}

/// Keeps a dropped record with a view until the program's capture of its stream has ended. The captured stream cannot wait for uses from
/// before the capture, nor can a view free its memory. Memory of the capture itself serves the capture again.
fn keep_behind_capture(record: Box<Record>) -> Option<Box<Record>> {
    let stream = record.stream().clone();
    let is_older = |open: Stream| open.id() != stream.id();
    if record.view.get().is_none() || !stream.reservation().is_some_and(is_older) {
        return Some(record);
    }
    stream.keep_behind_capture(Box::new(Block::of(record))).err().map(|block| block.into_record())
}
