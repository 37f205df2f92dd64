//! Where an array is, and how it moves.
//!
//! Invariants: an array is on the device, or away, or both, and then both are equal unless it was written since it came (`is_clean`).
//! It leaves only where nobody has it locked, and only once its copy on the host is complete in the order of the streams.

//! A move may have to wait for memory, for which handlers of the program are called. So memory for a copy is found while no slot
//! is locked; then the slot is locked, and if another thread was faster the memory goes back.

mod coming;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::host_pool::{HostPool, Rests, Tag};
use super::moves::OffloadStats;
use super::placement::{Chosen, Placement};
use super::recorder;
use crate::array::{Array, Away, Element, Room};
use crate::device::Device;
use gpucache_engine::base::amounts::add;
use gpucache_engine::base::errand::Errand;
use gpucache_engine::base::held::Held;
#[cfg(feature = "tracing")]
use gpucache_engine::base::subscriber::{self, TARGET};
use gpucache_engine::device::Span;
use gpucache_engine::device::Stream;
use gpucache_engine::range::Clearing;
use gpucache_engine::record::Fence;
use gpucache_engine::{Error, Result};

/// A slot for an array.
pub(super) struct Slot<T, D> {
    pub(super) tag: Tag,
    pub(super) pool: Arc<HostPool>,
    device: D,
    state: RwLock<State<T, D>>,
    /// To have the array come.
    coming: Arc<Errand>,
}

/// The state, locked by this crate for a moment, in which it runs no code of the program.
struct Locked<'a, T, D> {
    state: RwLockWriteGuard<'a, State<T, D>>,
    _held: Held,
}

impl<'a, T, D> Locked<'a, T, D> {
    fn new(state: RwLockWriteGuard<'a, State<T, D>>) -> Self {
        Locked { state, _held: Held::begin() }
    }
}

impl<T, D> Deref for Locked<'_, T, D> {
    type Target = State<T, D>;

    fn deref(&self) -> &State<T, D> {
        &self.state
    }
}

impl<T, D> DerefMut for Locked<'_, T, D> {
    fn deref_mut(&mut self) -> &mut State<T, D> {
        &mut self.state
    }
}

/// Where the array is.
pub(super) struct State<T, D> {
    pub(super) here: Option<Array<T, D>>,
    away: Option<Away<T>>,
    /// Whether both sides are equal, or the array is away. Where it is not, there is no copy left to come behind, and nothing away.
    is_clean: bool,
    /// The copy by which it came, until the array's stream comes behind that.
    arrival: Option<Fence>,
    /// The copy by which it was written back, which does not hinder those who read it.
    departure: Option<Fence>,
}

impl<T: Element, D: Device> State<T, D> {
    /// Puts the array's stream behind the copy by which it came: the copies that the copy stream makes later are nothing to it.
    fn arrive(&mut self) -> Result<()> {
        follow(&mut self.here, &mut self.arrival)
    }

    /// The same behind the copy by which it was written back, for who writes it or has it leave.
    fn settle(&mut self) -> Result<()> {
        self.arrive()?;
        follow(&mut self.here, &mut self.departure)
    }

    /// The shape of the array, if it is to be copied before it leaves, and `room` is not for that.
    fn lacks_room(&self, room: Option<&Room<T>>) -> Option<Box<[usize]>> {
        let here = self.here.as_ref().filter(|_| !self.is_clean)?;
        let has_room = room.is_some_and(|room| room.is_for(here.shape()));
        (!has_room).then(|| here.shape().into())
    }

    /// Whether it is away, or leaves by a drop alone.
    fn may_leave(&self) -> bool {
        self.here.is_none() || self.is_clean && self.arrival.is_none() && self.departure.is_none()
    }

    /// The array, if it is on the device and its stream behind the copy by which it came.
    #[inline]
    pub(super) fn settled(&self) -> Option<&Array<T, D>> {
        self.here.as_ref().filter(|_| self.arrival.is_none())
    }

    /// The array, if it was written since it came: it is on the device then, and its stream behind all copies.
    #[inline]
    pub(super) fn written(&mut self) -> Option<&mut Array<T, D>> {
        self.here.as_mut().filter(|_| !self.is_clean)
    }
}

fn follow<T: Element, D: Device>(array: &mut Option<Array<T, D>>, copy: &mut Option<Fence>) -> Result<()> {
    if let (Some(array), Some(fence)) = (array, &*copy) {
        array.follow(fence)?;
    }
    *copy = None;
    Ok(())
}

static NEXT_SLOT: AtomicU64 = AtomicU64::new(1);

impl<T: Element, D: Device> Slot<T, D> {
    pub(super) fn new(pool: Arc<HostPool>, array: Array<T, D>, placement: Placement) -> Arc<Slot<T, D>> {
        let tag = Tag {
            id: NEXT_SLOT.fetch_add(1, Relaxed),
            bytes: array.byte_len() as u64,
            placement: Chosen::new(placement),
            used: AtomicU64::new(pool.now()),
            born_in: AtomicU64::new(0),
            born_as: AtomicU64::new(0),
        };
        pool.came(tag.bytes);
        let device = array.device().clone();
        let state =
            RwLock::new(State { here: Some(array), away: None, is_clean: false, arrival: None, departure: None });
        let slot = Arc::new(Slot { tag, pool: pool.clone(), device, state, coming: Arc::default() });
        let known: Arc<dyn Rests> = slot.clone();
        pool.add(Arc::downgrade(&known));
        recorder::born(&slot);
        slot
    }

    pub(super) fn device(&self) -> &D {
        &self.device
    }

    /// The array's own stream, which is all that a device is made of.
    fn stream(&self) -> &Stream {
        self.device.stream_handle()
    }

    /// The state, for somebody who reads the array, unless it moves.
    #[inline]
    pub(super) fn try_read(&self) -> Option<RwLockReadGuard<'_, State<T, D>>> {
        // Not behind a writer that waits: the thread may have the array lent already.
        self.state.try_read_recursive()
    }

    /// The same, once no copy of it is being made.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, State<T, D>> {
        self.state.read_recursive()
    }

    /// The state, to be lent to somebody who writes the array.
    #[inline]
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, State<T, D>> {
        self.state.write()
    }

    fn lock(&self) -> Locked<'_, T, D> {
        Locked::new(self.state.write())
    }

    /// The same, unless somebody has it locked, or the array lent.
    fn try_lock(&self) -> Option<Locked<'_, T, D>> {
        self.state.try_write().map(Locked::new)
    }

    /// Counts a copy.
    fn moved(&self, span: Option<Span>, bytes: fn(&mut OffloadStats) -> &mut u64) {
        recorder::count(&self.pool, |stats| add(bytes(stats), self.tag.bytes));
        recorder::note_copy(&self.pool, span, self.tag.bytes);
    }

    /// Tells a subscriber of `tracing` of a move, once nothing is locked and no other thread waits for this one.
    #[inline]
    fn tell(&self, _way: &'static str) {
        #[cfg(feature = "tracing")]
        {
            let (device, bytes) = (self.stream().memory_id(), self.tag.bytes);
            subscriber::tell_after_errands(move || {
                tracing::debug!(target: TARGET, device, bytes, way = _way, "array moved");
            });
        }
    }

    /// Makes a move that work of the array's stream may have to wait for.
    fn watch<R>(&self, act: impl FnOnce() -> R) -> R {
        recorder::watch(&self.pool, self.stream(), act)
    }

    /// The state, locked, and in `room` the host's memory for a copy if one is to be made. `None` where somebody has it locked.
    fn lock_with_room(&self, room: &mut Option<Room<T>>) -> Result<Option<Locked<'_, T, D>>> {
        loop {
            let Some(state) = self.try_lock() else { return Ok(None) };
            let Some(dims) = state.lacks_room(room.as_ref()) else { return Ok(Some(state)) };
            drop(state);
            *room = Some(Room::new(&self.pool.copy_streams()?.outward.host, &dims)?);
        }
    }

    /// Copies the array to the host if it was written since it was there. Returns whether it did.
    fn copy_out(&self, state: &mut State<T, D>, room: &mut Option<Room<T>>) -> Result<bool> {
        if let Some(here) = &state.here
            && !state.is_clean
            && let Some(left) = here.copy_out(&self.pool.copy_streams()?.outward, room, recorder::timing().is_some())?
        {
            let (away, fence, span) = left;
            (state.away, state.departure, state.is_clean) = (Some(away), Some(fence), true);
            self.moved(span, |stats| &mut stats.bytes_out);
            return Ok(true);
        }
        Ok(false)
    }

    /// Has the array leave. Returns the bytes that are free then.
    fn leave(&self) -> Result<u64> {
        let Some(mut state) = self.try_lock() else { return Ok(0) };
        let may_leave = state.may_leave();
        let here = if may_leave { state.here.take() } else { None };
        drop(state);
        let left = if may_leave { here } else { self.watch(|| self.copy(true))? };
        // Behind the lock: to give back memory of a scope may call code of the program.
        let Some(array) = left else { return Ok(0) };
        drop(array);
        self.pool.went(self.tag.bytes);
        recorder::count(&self.pool, |stats| stats.evictions += 1);
        self.tell("evicted");
        Ok(self.tag.bytes)
    }

    /// Copies the array to the host if need be, unless somebody has it locked. Returns it if it is to leave.
    fn copy(&self, leaves: bool) -> Result<Option<Array<T, D>>> {
        let mut room = None;
        let Some(mut state) = self.lock_with_room(&mut room)? else { return Ok(None) };
        let is_copied = self.copy_out(&mut state, &mut room)?;
        let left = if leaves { state.settle().map(|()| state.here.take()) } else { Ok(None) };
        drop(state);
        if is_copied {
            self.tell("out");
        }
        left
    }
}

/// An array is nowhere, which no call leads to: it leaves one place once it is in the other.
#[cold]
pub(super) fn gone() -> Error {
    Error::device_failure("the host", "a fetch", "the array is neither on the device nor on the host")
}

impl<T: Element, D: Device> Rests for Slot<T, D> {
    fn tag(&self) -> &Tag {
        &self.tag
    }

    fn pool(&self) -> &Arc<HostPool> {
        &self.pool
    }

    fn write_back(&self) -> Result<()> {
        // Nothing is timed where somebody has it locked.
        let is_free = self.try_lock().is_some();
        if is_free { self.watch(|| self.copy(false)).map(|_| ()) } else { Ok(()) }
    }

    fn evict(&self) -> Result<u64> {
        self.leave()
    }

    fn bring(&self) -> Result<bool> {
        self.come_ahead()
    }

    fn is_locked(&self) -> bool {
        self.try_lock().is_none()
    }

    fn lies_at(&self, stream: &Stream) -> Option<u64> {
        let is_mine = self.stream().queue() == stream.queue();
        let state = self.try_lock().filter(|_| is_mine && self.tag.placement.get() != Placement::Device)?;
        let is_still = state.arrival.is_none() && state.departure.is_none();
        state.here.as_ref().filter(|_| is_still && self.tag.bytes > 0).map(Array::place)
    }

    fn shift(&self, clearing: &Clearing) -> Result<bool> {
        let Some(mut state) = self.try_lock() else { return Ok(false) };
        let Some(array) = &state.here else { return Ok(true) };
        let Some(copy) = array.copied_outside(clearing)? else { return Ok(false) };
        let before = state.here.replace(copy);
        // Behind the lock: to give back memory of a scope may call code of the program.
        drop(state);
        drop(before);
        recorder::count(&self.pool, |stats| add(&mut stats.shifted_bytes, self.tag.bytes));
        Ok(true)
    }

    fn keep(&self, error: Error) {
        if !error.is_out_of_memory() {
            self.stream().keep(error);
        }
    }
}

impl<T, D> Drop for Slot<T, D> {
    fn drop(&mut self) {
        recorder::gone(&self.tag);
        if self.state.get_mut().here.is_some() {
            self.pool.went(self.tag.bytes);
        }
    }
}
