//! The slot of a placed array: where the array is, and how it moves.
//!
//! Invariants: an array is on the device, on the host, or on both. If it is on both, the two are equal unless the array was written since
//! it came (`is_clean`). An array leaves only while nobody has it locked, and only once its copy on the host is complete in stream order.

//! A move may have to wait for memory, and then handlers of the program are called. So memory for a copy is allocated while no slot is
//! locked. Then the slot is locked. If another thread moved the array meanwhile, the memory is freed.

mod coming;

use std::ops::{Deref, DerefMut, Range};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::host_pool::{HostPool, Rests};
use super::moves::OffloadStats;
use super::placement::{Chosen, Placement, Tag};
use super::recorder;
use crate::array::{Array, Away, Element, Room};
use crate::device::Device;
use gpucache_engine::base::amounts::add;
use gpucache_engine::base::errand::Errand;
use gpucache_engine::base::held::Held;
#[cfg(feature = "tracing")]
use gpucache_engine::base::subscriber::{self, TARGET};
use gpucache_engine::device::{Span, Stream};
use gpucache_engine::pressure::Transit;
use gpucache_engine::record::Fence;
use gpucache_engine::{Error, Result};

/// A slot for an array.
pub(super) struct Slot<T, D> {
    pub(super) tag: Tag,
    pub(super) pool: Arc<HostPool>,
    /// This slot, for the pool.
    me: Weak<dyn Rests>,
    pub(super) device: D,
    state: RwLock<State<T, D>>,
    /// One thread brings the array, and the others wait.
    coming: Arc<Errand>,
}

/// The state, locked by this crate for a moment. No code of the program runs meanwhile.
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

/// An array that leaves. Until its memory is free, another thread that lacks memory neither finds it nor can evict it.
type Leaving<T, D> = (Array<T, D>, Transit);

/// Where the array is.
pub(super) struct State<T, D> {
    pub(super) here: Option<Array<T, D>>,
    away: Option<Away<T>>,
    /// Whether both sides are equal, or the array is on the host alone. If not, no copy is pending, and nothing is on the host.
    is_clean: bool,
    /// The copy to the device, until the array's stream waits for it.
    arrival: Option<Fence>,
    /// The copy to the host. Readers of the array need not wait for it.
    departure: Option<Fence>,
}

impl<T: Element, D: Device> State<T, D> {
    /// Makes the array's stream wait for the copy to the device, and for no later copy of the copy stream.
    fn arrive(&mut self) -> Result<()> {
        follow(&mut self.here, &mut self.arrival)
    }

    /// The same for the copy to the host too, before the array is written or leaves.
    fn settle(&mut self) -> Result<()> {
        self.arrive()?;
        follow(&mut self.here, &mut self.departure)
    }

    /// Whether the array is on the device and has to stay at its address. It may be another one than was placed: a guard for writing can
    /// exchange it.
    fn is_pinned(&self) -> bool {
        self.here.as_ref().is_some_and(Array::is_pinned)
    }

    /// The shape of the array, if it has to be copied before it leaves and `room` does not fit.
    fn lacks_room(&self, room: Option<&Room<T>>) -> Option<Box<[usize]>> {
        let here = self.here.as_ref().filter(|_| !self.is_clean)?;
        let has_room = room.is_some_and(|room| room.is_for(here.shape()));
        (!has_room).then(|| here.shape().into())
    }

    /// Whether the array is on the host, or can leave without a copy.
    fn may_leave(&self) -> bool {
        self.here.is_none() || self.is_clean && self.arrival.is_none() && self.departure.is_none()
    }

    /// The array, if it is on the device and its stream waits for the copy already.
    #[inline]
    pub(super) fn settled(&self) -> Option<&Array<T, D>> {
        self.here.as_ref().filter(|_| self.arrival.is_none())
    }

    /// The array, if it was written since it came. Then it is on the device, and no copy is pending.
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
        let slot = Arc::new_cyclic(|me: &Weak<Self>| {
            let me: Weak<dyn Rests> = me.clone();
            Slot { tag, pool, me, device, state, coming: Arc::default() }
        });
        slot.pool.present.enter(&slot.tag, &slot.me);
        recorder::born(&slot);
        slot
    }

    /// The array's own stream.
    fn stream(&self) -> &Stream {
        self.device.stream_handle()
    }

    /// The state, to read the array, unless the array moves.
    #[inline]
    pub(super) fn try_read(&self) -> Option<RwLockReadGuard<'_, State<T, D>>> {
        // Without waiting behind a writer: this thread may have a guard of the array already.
        self.state.try_read_recursive()
    }

    /// The same, once no copy is being made.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, State<T, D>> {
        self.state.read_recursive()
    }

    /// The state, to write the array.
    #[inline]
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, State<T, D>> {
        self.state.write()
    }

    /// Whether the array has to stay at its address on the device, and is not locked.
    pub(super) fn is_pinned(&self) -> bool {
        self.try_read().is_some_and(|state| state.is_pinned())
    }

    fn lock(&self) -> Locked<'_, T, D> {
        Locked::new(self.state.write())
    }

    /// The same, unless the state is locked or a guard lives.
    fn try_lock(&self) -> Option<Locked<'_, T, D>> {
        self.state.try_write().map(Locked::new)
    }

    /// Puts the array on the device. The pool learns of it under the same lock, so it knows of the last move only.
    fn put_here(&self, state: &mut State<T, D>, array: Array<T, D>) {
        state.here = Some(array);
        self.pool.present.enter(&self.tag, &self.me);
    }

    /// Takes the array off the device.
    fn take_here(&self, state: &mut State<T, D>) -> Option<Array<T, D>> {
        let here = state.here.take()?;
        self.pool.present.leave(&self.tag);
        Some(here)
    }

    /// Counts a copy.
    fn moved(&self, span: Option<Span>, bytes: fn(&mut OffloadStats) -> &mut u64) {
        recorder::count(&self.pool, |stats| add(bytes(stats), self.tag.bytes));
        recorder::note_copy(&self.pool, span, self.tag.bytes);
    }

    /// Reports a move to a subscriber of `tracing`, once nothing is locked and no other thread waits for this one.
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

    /// The state, locked, and in `room` the host memory for a copy if one is needed. `None` if the state is locked elsewhere.
    fn lock_with_room(&self, room: &mut Option<Room<T>>) -> Result<Option<Locked<'_, T, D>>> {
        loop {
            let Some(state) = self.try_lock() else { return Ok(None) };
            let Some(dims) = state.lacks_room(room.as_ref()) else { return Ok(Some(state)) };
            drop(state);
            *room = Some(Room::new(&self.pool.copy_streams()?.outward.host, &dims)?);
        }
    }

    /// Copies the array to the host if it was written since the last copy. Returns whether it copied.
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

    /// Copies the array to the host if it was written, unless it is locked. Returns the array if it is to leave, and whether it was copied.
    fn copy(&self, leaves: bool) -> Result<(Option<Leaving<T, D>>, bool)> {
        let mut room = None;
        let state = self.lock_with_room(&mut room)?;
        // Another thread may have put an array there that has to stay.
        let Some(mut state) = state.filter(|state| !(leaves && state.is_pinned())) else { return Ok((None, false)) };
        let transit = leaves.then(Transit::begin);
        let is_copied = self.copy_out(&mut state, &mut room)?;
        let left = if leaves { state.settle().map(|()| self.take_here(&mut state)) } else { Ok(None) };
        drop(state);
        Ok((left?.zip(transit), is_copied))
    }

    fn tell_copied(&self, is_copied: bool) {
        if is_copied {
            self.tell("out");
        }
    }
}

/// Memory for an array of `stream` with so many bytes: at the address `at` if that is free, or else where other arrays leave for it.
///
/// # Errors
/// As for [`Room::new`].
pub(super) fn find_room<T: Element>(
    pool: &HostPool,
    stream: &Stream,
    dims: &[usize],
    (bytes, at): (u64, Option<u64>),
) -> Result<Room<T>> {
    if let Some(address) = at
        && let Some(room) = Room::at(stream, dims, address)?
    {
        return Ok(room);
    }
    pool.make_room(stream, bytes);
    Room::new(stream, dims)
}

/// The error of an array that is on neither side. No call leads to this: an array leaves one side only once it is on the other.
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
        // Only an array that is not locked is timed.
        let is_free = self.try_lock().is_some();
        if is_free {
            self.tell_copied(self.watch(|| self.copy(false))?.1);
        }
        Ok(())
    }

    fn evict(&self) -> Result<u64> {
        // Also an array without a copy to make: its memory may be a part of the graph.
        if self.stream().can_capture() && self.stream().is_capturing() {
            return Ok(0);
        }
        let Some(mut state) = self.try_lock().filter(|state| !state.is_pinned()) else { return Ok(0) };
        let (left, is_copied) = if state.may_leave() {
            let transit = Transit::begin();
            let here = self.take_here(&mut state);
            drop(state);
            (here.map(|array| (array, transit)), false)
        } else {
            drop(state);
            self.watch(|| self.copy(true))?
        };
        // After the lock: freeing memory of a scope may call code of the program.
        let Some((array, transit)) = left else { return Ok(0) };
        drop(array);
        // Before the program hears of it, since requests of other threads wait for the memory.
        drop(transit);
        self.tell_copied(is_copied);
        self.pool.went(self.tag.bytes);
        recorder::count(&self.pool, |stats| stats.evictions += 1);
        self.tell("evicted");
        Ok(self.tag.bytes)
    }

    fn bring(&self, at: Option<u64>) -> Result<bool> {
        self.come_ahead(at)
    }

    fn is_locked(&self) -> bool {
        self.try_lock().is_none()
    }

    fn lies_at(&self, stream: &Stream) -> Option<u64> {
        let is_mine = self.stream().queue() == stream.queue();
        let state = self.try_lock().filter(|_| is_mine && self.tag.placement.get() != Placement::Device)?;
        let is_still = state.arrival.is_none() && state.departure.is_none() && !state.is_pinned();
        state.here.as_ref().filter(|_| is_still && self.tag.bytes > 0).map(Array::place)
    }

    fn shift(&self, place: &Range<u64>) -> Result<bool> {
        // Declared before the lock: freeing memory may call code of the program.
        let mut room = None;
        let Some(mut state) = self.try_lock().filter(|state| !state.is_pinned()) else { return Ok(false) };
        let lies_there = |array: &&Array<T, D>| place.contains(&array.place());
        let Some(array) = state.here.as_ref().filter(lies_there) else { return Ok(true) };
        let Some(copy) = array.copied_outside(place, &mut room)? else { return Ok(false) };
        let before = state.here.replace(copy);
        // After the lock: freeing memory of a scope may call code of the program.
        drop(state);
        drop(before);
        recorder::count(&self.pool, |stats| add(&mut stats.shifted_bytes, self.tag.bytes));
        Ok(true)
    }

    fn keep(&self, error: Error) {
        if error.is_deferred() || !error.is_out_of_memory() {
            self.stream().keep(error);
        }
    }
}

impl<T, D> Drop for Slot<T, D> {
    fn drop(&mut self) {
        recorder::gone(&self.tag, &self.pool);
        if self.state.get_mut().here.is_some() {
            self.pool.present.leave(&self.tag);
            self.pool.went(self.tag.bytes);
        }
    }
}
