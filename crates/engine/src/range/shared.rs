//! The range of a device behind a lock. All scopes, threads and streams of the process share it.
//!
//! A thread takes the lock if the lists of a scope have no block, never for a cache hit. No thread waits for a device's work while it holds
//! the lock, and a drop never waits for the lock. `ordered` has the code that runs under the lock.

use std::cell::Cell;
use std::sync::TryLockError;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use super::fit::EVERY_SPAN;
use super::ordered::{Carved, Ordered, RangeState};
use super::wait::{LONG, SHORT, poll};
use super::{GatherLimit, GrowthRoom, Range, RangeBlock};
use crate::base::error::Result;
use crate::base::sync::{Mutex, MutexGuard, lock};
use crate::device::{Memory, Source, Stream};
use crate::order::{Streams, Unknown};

/// The range of one device.
pub struct DeviceRange {
    inner: Mutex<Ordered>,
    /// Blocks that came back while another thread held the lock. This lock is held only for a moment.
    late: Mutex<Vec<(Stream, RangeBlock)>>,
    has_late: AtomicBool,
}

/// The capacity of the list of late blocks, so that dropping one of them does not allocate on the host. The lock is held only for a moment,
/// and few threads drop blocks in that time.
const LATE_BLOCKS: usize = 64;

impl DeviceRange {
    /// The range of a device, if it exists already.
    pub fn known(memory: &Memory) -> Option<&DeviceRange> {
        memory.known_range()
    }

    /// The range of the device of `stream`, which is made at the first call. `None` if the device has no range.
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
            let mut streams = Streams::new(memory.meter().clone());
            streams.unknown = Unknown::of(memory.unknown_work().cloned());
            let inner = Mutex::new(Ordered::new(range, streams));
            let late = Mutex::new(Vec::with_capacity(LATE_BLOCKS));
            DeviceRange { inner, late, has_late: AtomicBool::new(false) }
        })
    }

    /// Lets work of all GPUs for which this was called use the memory of each other, as far as they can reach it.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn share(stream: &Stream) -> Result<()> {
        if stream.memory().pages().is_some_and(|pages| pages.share()) {
            let every = Memory::every();
            every.iter().filter_map(|memory| memory.known_range()).try_for_each(DeviceRange::renew_access)?;
        }
        Ok(())
    }

    fn renew_access(&self) -> Result<()> {
        let range = &self.inner().range;
        let mut pieces = range.handles.within(0, u64::MAX);
        pieces.try_for_each(|(offset, bytes)| range.pages.renew_access(offset, bytes))
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Ordered> {
        let mut inner = lock(&self.inner);
        if self.has_late.swap(false, SeqCst) {
            // The list is drained in place, so its memory serves the next blocks.
            lock(&self.late).drain(..).for_each(|(stream, block)| inner.free(&stream, block));
        }
        inner
    }

    /// Like [`reuse`](DeviceRange::reuse), for a range that several streams share and that would grow otherwise. It looks at all free
    /// spans, and waits a moment for streams that may be done with them.
    ///
    /// # Errors
    /// As for [`reuse`](DeviceRange::reuse).
    pub(crate) fn reuse_soon(&self, stream: &Stream, bytes: u64) -> Result<Option<Carved>> {
        let is_unordered = self.inner().streams.unknown.is_unordered();
        if is_unordered {
            self.mark_now()?;
        }
        let may_be_done = |inner: &Ordered| is_unordered || inner.streams.may_be_done_soon();
        self.poll_reuse(stream, bytes, SHORT, |inner| inner.range.is_long_enough(bytes) && may_be_done(inner))
    }

    /// Looks at all free spans again and again, for at most `most` and as long as memory `may_come`.
    pub(super) fn poll_reuse(
        &self,
        stream: &Stream,
        bytes: u64,
        most: Duration,
        may_come: impl Fn(&Ordered) -> bool,
    ) -> Result<Option<Carved>> {
        let found = poll(most, || {
            let inner = &mut *self.inner();
            inner.look()?;
            let found = inner.reuse(stream, bytes, EVERY_SPAN)?;
            Ok((found.is_some() || !may_come(inner)).then_some(found))
        })?;
        if found.is_none() {
            self.inner().streams.were_slow();
        }
        Ok(found.flatten())
    }

    /// Memory for `bytes` at contiguous addresses, with the reserved memory within `limit` afterwards. It unmaps free pages in exchange for
    /// the pages that the block lacks. If pages of `stream` are needed for that, it waits for the work of `stream`, without the lock. It
    /// waits for unknown work too, and for no other stream. `None` if the free pages that no work uses do not suffice; nothing has changed
    /// then.
    ///
    /// # Errors
    /// A failure of the device, or of work on it.
    pub(crate) fn gather(&self, stream: &Stream, bytes: u64, limit: GatherLimit) -> Result<Option<Carved>> {
        match self.try_gather(stream, bytes, limit)? {
            Some(carved) => Ok(Some(carved)),
            None if self.finish_own(stream)? == Some(true) || limit.waits() => {
                self.try_gather(stream, bytes, limit.at_once())
            }
            None => Ok(None),
        }
    }

    /// Like [`gather`](DeviceRange::gather), but waits for no work except work on unknown streams.
    pub(super) fn try_gather(&self, stream: &Stream, bytes: u64, limit: GatherLimit) -> Result<Option<Carved>> {
        self.settling(stream, &|range, may_use, is_idle| range.gather(bytes, limit, may_use, is_idle))
    }

    /// Waits for the present work of `stream`, without the lock, if memory that it freed or used is not known to be idle. The wait has a
    /// limit, since the work may itself wait for the caller. It does not wait for streams that run closures, which may need a lock of the
    /// caller, nor for streams that are being captured. Returns whether the work is done now; `None` if there was nothing to wait for.
    pub(super) fn finish_own(&self, stream: &Stream) -> Result<Option<bool>> {
        if stream.runs_closures() || stream.is_capturing() || self.inner().streams.pending(stream).is_none() {
            return Ok(None);
        }
        let is_done = poll(LONG, || {
            let inner = &mut *self.inner();
            inner.streams.look(false)?;
            Ok(inner.streams.pending(stream).is_none().then_some(()))
        })?;
        if is_done.is_none() {
            self.inner().streams.give_up();
        }
        Ok(Some(is_done.is_some()))
    }

    /// A block of at least `bytes` that can grow up to `room`, and its bytes. The reserved memory is within `limit`, as for
    /// [`gather`](DeviceRange::gather), but it waits only for unknown work. `None` if there is no such block, or if memory comes in chunks.
    ///
    /// # Errors
    /// A failure of the device, or of work on it.
    pub(crate) fn allocate_in_room(
        &self,
        stream: &Stream,
        bytes: u64,
        room: u64,
        limit: GatherLimit,
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

    /// At least `bytes` more at the end of a block, in its room. Returns the whole block, and the bytes that were added. Otherwise it is
    /// like [`allocate_in_room`](DeviceRange::allocate_in_room); if it fails, the block is unchanged.
    ///
    /// # Errors
    /// A failure of the device, or of work on it.
    pub(crate) fn grow_in(
        &self,
        stream: &Stream,
        room: &GrowthRoom,
        block: Option<&RangeBlock>,
        bytes: u64,
        limit: GatherLimit,
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

    /// Closes a room: no block grows in it any more. Another room can use its addresses once nothing lies there.
    pub(crate) fn close_room(&self, room: GrowthRoom) {
        self.inner().range.close_room(room);
    }

    /// Divides a block whose work `stream` orders. Each of `pieces`, given by its offset in the block and its bytes, becomes a block, and
    /// the rest becomes free. Pieces must be in order, must not overlap, and must lie within the block at multiples of 256. The first piece
    /// that breaks these rules ends the list: only the blocks of the pieces before it are returned, one each.
    pub(crate) fn split(&self, stream: &Stream, block: RangeBlock, pieces: &[(u64, u64)]) -> Vec<RangeBlock> {
        let inner = &mut *self.inner();
        let tag = inner.streams.free(stream);
        let blocks = inner.range.split(block, pieces, tag);
        inner.account(tag.owner());
        blocks
    }

    /// The reserved bytes, and how many of them are in use.
    pub fn reserved_and_live(&self) -> (u64, u64) {
        let RangeState { reserved, live, .. } = self.occupancy();
        (reserved, live)
    }

    /// The reserved bytes, the bytes in use, and the counts of the range.
    pub(crate) fn occupancy(&self) -> RangeState {
        self.inner().occupancy()
    }

    /// The reserved bytes that are not in use.
    pub(crate) fn idle_bytes(&self) -> u64 {
        let (reserved, live) = self.reserved_and_live();
        reserved.saturating_sub(live)
    }

    /// Runs `act` on the streams of the device, under the lock. So `act` must not call back into the range.
    pub(crate) fn streams<R>(&self, act: impl FnOnce(&mut Streams) -> R) -> R {
        act(&mut self.inner().streams)
    }

    /// Takes back memory whose work `stream` orders. It never waits: if another thread holds the lock, the next thread that takes the lock
    /// frees the block.
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
}
