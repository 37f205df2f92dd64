//! The range of a device, shared by all scopes, threads and streams of the process, behind a lock.
//!
//! The lock is taken when a scope's lists have nothing, never by a hit; nobody waits for a device's work while he has it,
//! and a drop never waits for it. What is decided under the lock stands in `ordered`.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, PoisonError, TryLockError, Weak};

use super::fit::EVERY_SPAN;
use super::ordered::{Carved, Ordered, RangeState};
use super::wait::{LONG, SHORT, poll};
use super::{GrowthRoom, Limit, Range, RangeBlock};
use crate::base::error::Result;
use crate::base::sync::{Mutex, MutexGuard};
use crate::device::{Memory, Source, Stream};
use crate::order::{Epoch, Streams, Unknown};

/// The range of one device.
#[derive(Debug)]
pub struct DeviceRange {
    inner: Mutex<Ordered>,
    /// Blocks that came back while another thread had the lock; it is held for a moment only.
    late: Mutex<Vec<(Stream, RangeBlock)>>,
    has_late: AtomicBool,
}

/// Blocks for which there is room from the start that come back while another thread has the lock, so that the drop of one does
/// not allocate on the host: it is held for a moment, and few threads drop in that.
const LATE_BLOCKS: usize = 64;
/// Blocks may lie apart in a range that reserves 1/5 more than ever was in use at once. Pages that move cost calls, and best fit
/// alone reserves 1.057 times the live peak of seven traces on average: gaps beyond 1/5 are those that few large blocks leave.
const APART_SHARE: u64 = 5;
/// Granules that a range may reserve more than ever was in use at once, where that is more than [`APART_SHARE`]: in a range of
/// few granules a single gap is a large share.
const APART_GRANULES: u64 = 4;
/// Calls by which pages may move before the range grows, whatever is freed: twice as many as the 1024 handles of a range that
/// has grown step by step.
const FREE_CALLS: u64 = 2048;
/// Frees that earn one more call by which pages move before the range grows, so that a scope whose sizes never repeat ends up
/// with more memory, and not with calls for most of its allocations.
const FREES_PER_CALL: u64 = 16;

impl DeviceRange {
    /// The range of a device, if there is one by now.
    pub fn known(memory: &Memory) -> Option<&DeviceRange> {
        memory.known_range()
    }

    /// The range of the device that `stream` is of, made the first time; `None` if it is to have none.
    #[inline]
    pub fn of(stream: &Stream) -> Option<&DeviceRange> {
        let memory = stream.memory();
        if !memory.has_range() {
            return None;
        }
        memory.range(|| {
            let source = Source::of(stream);
            let range = match source.span() {
                Some(bytes) => Range::span(source, bytes),
                None => Range::chunks(source),
            };
            devices().push(Arc::downgrade(memory));
            let mut streams = Streams::new(memory.meter().clone());
            streams.unknown = Unknown::of(memory.unknown_work().cloned());
            let inner = Mutex::new(Ordered::new(range, streams));
            let late = Mutex::new(Vec::with_capacity(LATE_BLOCKS));
            DeviceRange { inner, late, has_late: AtomicBool::new(false) }
        })
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Ordered> {
        let mut inner = lock(&self.inner);
        if self.has_late.swap(false, SeqCst) {
            // In its place, so that its memory serves the next ones.
            lock(&self.late).drain(..).for_each(|(stream, block)| inner.free(&stream, block));
        }
        inner
    }

    /// As [`reuse`](DeviceRange::reuse), where several streams share the range, and it is to grow otherwise: looks at all that is free,
    /// and waits a moment for those who may be done with it.
    ///
    /// # Errors
    /// As for [`reuse`](DeviceRange::reuse).
    pub(crate) fn reuse_soon(&self, stream: &Stream, bytes: u64) -> Result<Option<Carved>> {
        let found = poll(SHORT, || {
            let inner = &mut *self.inner();
            inner.look()?;
            let found = inner.reuse(stream, bytes, EVERY_SPAN)?;
            let may_come = inner.range.is_long_enough(bytes) && inner.streams.may_be_done_soon();
            Ok((found.is_some() || !may_come).then_some(found))
        })?;
        if found.is_none() {
            self.inner().streams.were_slow();
        }
        Ok(found.flatten())
    }

    /// Memory for `bytes`, contiguous in addresses, after which what is reserved is within `limit`: free pages are
    /// unmapped for those that it lacks. Waits for the work of `stream`, without the lock, where its pages are needed for
    /// that, and for no other stream's, but for unknown work. `None`, and nothing has changed, if the free pages that no work
    /// uses are not enough.
    ///
    /// # Errors
    /// A failure of the device, or of work on it.
    pub(crate) fn gather(&self, stream: &Stream, bytes: u64, limit: Limit) -> Result<Option<Carved>> {
        match self.try_gather(stream, bytes, limit)? {
            Some(carved) => Ok(Some(carved)),
            None if self.finish_own(stream)? || limit.waits() => self.try_gather(stream, bytes, limit.at_once()),
            None => Ok(None),
        }
    }

    /// As [`gather`](DeviceRange::gather), but waits for no work except that of which nobody tells.
    pub(super) fn try_gather(&self, stream: &Stream, bytes: u64, limit: Limit) -> Result<Option<Carved>> {
        self.settling(stream, &|range, may_use, is_idle| range.gather(bytes, limit, may_use, is_idle))
    }

    /// Waits for the work of `stream` so far, without the lock, if memory that it freed or used is not known to be idle: for a
    /// bounded time, as it may itself wait for the caller. Not for streams that run closures, which may want what the
    /// caller has locked, nor for those that are captured. Returns whether it is done now, and was not before.
    fn finish_own(&self, stream: &Stream) -> Result<bool> {
        if stream.runs_closures() || stream.is_capturing() || self.inner().streams.pending(stream).is_none() {
            return Ok(false);
        }
        let is_done = poll(LONG, || {
            let inner = &mut *self.inner();
            inner.streams.look(false)?;
            Ok(inner.streams.pending(stream).is_none().then_some(()))
        })?;
        if is_done.is_none() {
            self.inner().streams.give_up();
        }
        Ok(is_done.is_some())
    }

    /// Memory for `bytes` if the range would have to reserve far more than was in use at once: free pages make up for
    /// those that are missing, as far as they can. `None` if by what was `seen` it may grow without that, or pages moved too often.
    ///
    /// # Errors
    /// As for [`gather`](DeviceRange::gather).
    pub(crate) fn exchange(&self, stream: &Stream, bytes: u64, seen: &RangeState) -> Result<Option<Carved>> {
        let RangeState { reserved, live, peak_live, frees, exchanged, granule, .. } = *seen;
        let due = peak_live.max(live.saturating_add(bytes));
        // Where there is little memory, blocks and pages are of like size, and lie apart by whole pages.
        let aim = due.saturating_add((due / APART_SHARE).max(APART_GRANULES * granule));
        if reserved.saturating_add(bytes) <= aim || exchanged > FREE_CALLS + frees / FREES_PER_CALL {
            return Ok(None);
        }
        let carved = self.gather(stream, bytes, Limit::aiming_at(aim))?;
        self.inner().exchanged += carved.as_ref().map_or(0, |carved| carved.calls);
        Ok(carved)
    }

    /// A block of at least `bytes` that can grow up to `room`, and its bytes; with what is reserved within `limit`, as for
    /// [`gather`](DeviceRange::gather), but only unknown work is waited for. `None` if there is none to be had, or memory comes in
    /// chunks.
    ///
    /// # Errors
    /// A failure of the device, or of work on it.
    pub(crate) fn allocate_in_room(
        &self,
        stream: &Stream,
        bytes: u64,
        room: u64,
        limit: Limit,
    ) -> Result<Option<(Carved, u64, GrowthRoom)>> {
        let Some(room) = self.inner().range.open_room(bytes, room) else { return Ok(None) };
        match self.grow_in(stream, &room, None, bytes, limit) {
            Ok(Some((carved, bytes))) => Ok(Some((carved, bytes, room))),
            failed => {
                self.close_room(room);
                failed.map(|_| None)
            }
        }
    }

    /// At least `bytes` more at the end of a block, in its room: the block then, and the bytes that it got. Otherwise as
    /// [`allocate_in_room`](DeviceRange::allocate_in_room); the block stays as it is then.
    ///
    /// # Errors
    /// A failure of the device, or of work on it.
    pub(crate) fn grow_in(
        &self,
        stream: &Stream,
        room: &GrowthRoom,
        block: Option<&RangeBlock>,
        bytes: u64,
        limit: Limit,
    ) -> Result<Option<(Carved, u64)>> {
        let added = Cell::new(0);
        let carved = self.settling(stream, &|range, may_use, is_idle| {
            let grown = range.grow_in(room, block, bytes, limit, may_use, is_idle)?;
            Ok(grown.map(|(block, bytes)| {
                added.set(bytes);
                block
            }))
        })?;
        Ok(carved.map(|carved| (carved, added.get())))
    }

    /// Nothing grows in a room any more: its addresses are the next one's, once nothing lies there.
    pub(crate) fn close_room(&self, room: GrowthRoom) {
        self.inner().range.close_room(room);
    }

    /// Takes a block apart that `stream` orders: each of `pieces`, given by its offset in the block and its bytes,
    /// becomes a block; the rest is free. Pieces are in order, apart from each other and within the block, at multiples
    /// of 256. The first that is not so ends them: only those before it are returned, one block each.
    pub(crate) fn split(&self, stream: &Stream, block: RangeBlock, pieces: &[(u64, u64)]) -> Vec<RangeBlock> {
        let inner = &mut *self.inner();
        let tag = inner.streams.free(stream);
        inner.range.split(block, pieces, tag)
    }

    /// What is reserved, and in use.
    pub fn occupancy(&self) -> RangeState {
        self.inner().occupancy()
    }

    /// The point in the work of `stream` that is now, for [`order`](DeviceRange::order). Calls no device.
    pub(crate) fn used(&self, stream: &Stream) -> Epoch {
        self.inner().streams.used(stream)
    }

    /// Orders later work of `stream` behind that of `other` up to a point that [`used`](DeviceRange::used) gave.
    ///
    /// # Errors
    /// A failure of the device, or a capture on either stream; `stream` must not touch then what `other` used.
    pub(crate) fn order(&self, stream: &Stream, other: &Stream, epoch: Epoch) -> Result<()> {
        self.inner().streams.order(stream, other, epoch)
    }

    /// Takes memory back that `stream` orders. Never waits: where another thread has the lock, that one takes it.
    pub(crate) fn free(&self, stream: &Stream, block: RangeBlock) {
        match self.inner.try_lock() {
            Ok(mut inner) => inner.free(stream, block),
            Err(TryLockError::Poisoned(inner)) => inner.into_inner().free(stream, block),
            Err(TryLockError::WouldBlock) => {
                lock(&self.late).push((stream.clone(), block));
                self.has_late.store(true, SeqCst);
            }
        }
    }

    /// What `stream` freed is not reserved any more: others may have it once all work that is on its queue now is done.
    #[cfg(any(feature = "cuda", test))]
    pub(crate) fn release(&self, stream: &Stream) {
        self.inner().streams.release(stream);
    }

    /// Ends the epoch of `stream` now, by one event.
    pub(crate) fn seal(&self, stream: &Stream) {
        self.inner().streams.seal(stream);
    }

    /// The calling thread works on `stream`, whose open epoch another one wants to end.
    #[cold]
    pub(crate) fn attend(&self, stream: &Stream) {
        self.inner().streams.attend(stream);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The devices that have a range, while the list is not locked.
pub(super) fn memories() -> Vec<Arc<Memory>> {
    devices().iter().filter_map(Weak::upgrade).collect()
}

/// The devices that have a range.
fn devices() -> MutexGuard<'static, Vec<Weak<Memory>>> {
    static DEVICES: Mutex<Vec<Weak<Memory>>> = Mutex::new(Vec::new());
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    devices.retain(|memory| memory.strong_count() > 0);
    devices
}
