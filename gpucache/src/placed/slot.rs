//! Where an array is, and how it moves.
//!
//! Invariants: an array is on the device, or away, or both, and then both are equal unless it was written since it came (`is_clean`).
//! It leaves only where nobody has it locked, and only once its copy on the host is complete in the order of the streams.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::accounts;
use super::moves::Moves;
use super::placement::{Chosen, Placement};
use super::recorder;
use super::sampling;
use super::told::{self, telling};
use super::yard::{Rests, Tag, Yard};
use crate::array::{Array, Away, Element, same_elements};
use crate::base::error::{Error, Result};
use crate::device::{Device, Span, Stream};
use crate::range::Clearing;
use crate::record::Fence;

/// A slot for an array.
pub(super) struct Slot<T, D> {
    pub(super) tag: Tag,
    pub(super) yard: Arc<Yard>,
    device: D,
    state: RwLock<State<T, D>>,
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
    /// Puts the array's stream behind the copy by which it came: the copies that the lane makes later are nothing to it.
    fn arrive(&mut self) -> Result<()> {
        follow(&mut self.here, &mut self.arrival)
    }

    /// The same behind the copy by which it was written back, for who writes it or has it leave.
    fn settle(&mut self) -> Result<()> {
        self.arrive()?;
        follow(&mut self.here, &mut self.departure)
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

thread_local! {
    /// The slot that the thread has locked for a move, which may call what the program registered for a shortage.
    static MOVED: Cell<u64> = const { Cell::new(0) };
}

static NEXT_SLOT: AtomicU64 = AtomicU64::new(1);

impl<T: Element, D: Device> Slot<T, D> {
    pub(super) fn new(yard: Arc<Yard>, array: Array<T, D>, placement: Placement) -> Arc<Slot<T, D>> {
        let tag = Tag {
            id: NEXT_SLOT.fetch_add(1, Relaxed),
            bytes: array.byte_len() as u64,
            placement: Chosen::new(placement),
            used: AtomicU64::new(yard.now()),
            born_in: AtomicU64::new(0),
            born_as: AtomicU64::new(0),
        };
        yard.came(tag.bytes);
        let device = array.device().clone();
        let state =
            RwLock::new(State { here: Some(array), away: None, is_clean: false, arrival: None, departure: None });
        let slot = Arc::new(Slot { tag, yard: yard.clone(), device, state });
        let known: Arc<dyn Rests> = slot.clone();
        yard.add(Arc::downgrade(&known));
        recorder::born(&slot);
        slot
    }

    pub(super) fn device(&self) -> &D {
        &self.device
    }

    /// The state, for somebody who reads the array, unless it moves.
    #[inline]
    pub(super) fn try_read(&self) -> Option<RwLockReadGuard<'_, State<T, D>>> {
        // Not behind a writer that waits: the thread may have the array lent already.
        self.state.try_read_recursive()
    }

    /// The same, once it does not move any more.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) if it is this thread that moves it.
    pub(super) fn read(&self) -> Result<RwLockReadGuard<'_, State<T, D>>> {
        if MOVED.get() == self.tag.id {
            let detail = "a handler of the shortage that it met asks for the array on its way";
            return Err(Error::unavailable("a fetch", detail, "have the handler use other arrays"));
        }
        Ok(self.state.read_recursive())
    }

    pub(super) fn try_write(&self) -> Option<RwLockWriteGuard<'_, State<T, D>>> {
        self.state.try_write()
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, State<T, D>> {
        self.state.write()
    }

    /// Has the array come, which is away: makes room for it before.
    pub(super) fn come(&self, state: &mut State<T, D>) -> Result<()> {
        let (Some(away), None) = (&mut state.away, &state.here) else { return Ok(()) };
        let lanes = self.yard.lanes()?;
        self.yard.make_room(self.device.stream_handle(), self.tag.bytes);
        let came = away.copy_in(&self.device, &lanes.inward, sampling::current().is_some())?;
        (state.here, state.arrival) = (Some(came.copy), Some(came.fence));
        state.is_clean = true;
        self.yard.came(self.tag.bytes);
        self.moved(came.span, |moves| &moves.bytes_in);
        self.tell("in");
        Ok(())
    }

    /// Counts a copy.
    fn moved(&self, span: Option<Span>, bytes: fn(&Moves) -> &AtomicU64) {
        self.yard.count(|moves| _ = bytes(moves).fetch_add(self.tag.bytes, Relaxed));
        self.yard.waits.copies(&self.yard.moves, span, self.tag.bytes);
        accounts::note_moved(self.tag.bytes);
    }

    /// Notes a move for a subscriber of `tracing`.
    #[inline]
    fn tell(&self, way: &'static str) {
        told::note(self.device.stream_handle(), self.tag.bytes, way);
    }

    /// Makes a move that work of the array's stream may have to wait for.
    fn watch<R>(&self, act: impl FnOnce() -> R) -> R {
        let outer = MOVED.replace(self.tag.id);
        let answer = self.yard.waits.watch(&self.yard.moves, self.device.stream_handle(), act);
        MOVED.set(outer);
        answer
    }

    /// The same for somebody who asks for the array now: its stream comes behind the copy.
    pub(super) fn come_for(&self, state: &mut State<T, D>) -> Result<()> {
        if state.settled().is_some() { Ok(()) } else { self.watch(|| self.come_now(state)) }
    }

    fn come_now(&self, state: &mut State<T, D>) -> Result<()> {
        if state.here.is_some() {
            return state.arrive();
        }
        self.yard.count(|moves| {
            moves.demanded.fetch_add(1, Relaxed);
            moves.bytes_demanded.fetch_add(self.tag.bytes, Relaxed);
        });
        self.come(state)?;
        if state.here.is_some() { state.arrive() } else { Err(gone()) }
    }

    /// The same for somebody who writes it: its stream comes behind all copies, and the host's side is given up.
    #[cold]
    pub(super) fn come_to_be_written(&self, state: &mut State<T, D>) -> Result<()> {
        self.come_for(state)?;
        if state.departure.is_some() {
            self.watch(|| state.settle())?;
        }
        state.is_clean = false;
        // Out of date: the host's memory is for what is away.
        state.away = None;
        Ok(())
    }

    fn copy_out(&self, state: &mut State<T, D>) -> Result<()> {
        if let Some(here) = &state.here
            && !state.is_clean
        {
            let lanes = self.yard.lanes()?;
            let left = here.copy_out(&lanes.outward, state.away.take(), sampling::current().is_some())?;
            (state.away, state.departure) = (Some(left.copy), Some(left.fence));
            state.is_clean = true;
            self.moved(left.span, |moves| &moves.bytes_out);
            self.tell("out");
        }
        Ok(())
    }

    /// Gives the elements another shape.
    ///
    /// # Errors
    /// [`is_invalid_shape`](Error::is_invalid_shape) for a shape of another number of them; the array is as it was then.
    pub(super) fn reshape(&self, dims: &[usize]) -> Result<()> {
        let state = &mut *self.state.write();
        // Of the array that is there now: another one may have been put in its place by way of a guard.
        let before = state.here.as_ref().map(|here| here.shape()).or(state.away.as_ref().map(|away| away.shape()));
        same_elements::<T>(dims, before.ok_or_else(gone)?)?;
        if let Some(here) = state.here.take() {
            state.here = Some(here.reshape(dims)?);
        }
        if let Some(away) = &mut state.away {
            away.reshape(dims);
        }
        Ok(())
    }

    /// Has the array leave. Returns the bytes that are free then.
    fn leave(&self) -> Result<u64> {
        let Some(mut state) = self.state.try_write() else { return Ok(0) };
        if !state.may_leave() {
            self.watch(|| self.copy_out(&mut state).and_then(|()| state.settle()))?;
        }
        let Some(array) = state.here.take() else { return Ok(0) };
        drop(array);
        self.yard.went(self.tag.bytes);
        self.yard.count(|moves| _ = moves.evictions.fetch_add(1, Relaxed));
        self.tell("evicted");
        Ok(self.tag.bytes)
    }

    /// The array is the program's from now on, or gone.
    pub(super) fn take(&self) -> Result<Option<Array<T, D>>> {
        telling(|| {
            let mut state = self.state.write();
            self.watch(|| self.come(&mut state).and_then(|()| state.settle()))?;
            let array = state.here.take();
            if array.is_some() {
                self.yard.went(self.tag.bytes);
            }
            Ok(array)
        })
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

    fn yard(&self) -> &Arc<Yard> {
        &self.yard
    }

    fn write_back(&self) -> Result<()> {
        let write = |mut state: RwLockWriteGuard<'_, State<T, D>>| self.watch(|| self.copy_out(&mut state));
        telling(|| self.state.try_write().map_or(Ok(()), write))
    }

    fn evict(&self) -> Result<u64> {
        telling(|| self.leave())
    }

    fn bring(&self) -> Result<bool> {
        telling(|| {
            let Some(mut state) = self.state.try_write() else { return Ok(false) };
            let is_away = state.here.is_none();
            if is_away {
                self.watch(|| self.come(&mut state))?;
            }
            Ok(is_away)
        })
    }

    fn lies_at(&self, stream: &Stream) -> Option<u64> {
        let is_mine = self.device.stream_handle().queue() == stream.queue();
        let state = self.state.try_write().filter(|_| is_mine && self.tag.placement.get() != Placement::Device)?;
        let is_still = state.arrival.is_none() && state.departure.is_none();
        state.here.as_ref().filter(|_| is_still && self.tag.bytes > 0).map(Array::place)
    }

    fn shift(&self, clearing: &Clearing) -> Result<bool> {
        let Some(mut state) = self.state.try_write() else { return Ok(false) };
        let Some(array) = &state.here else { return Ok(true) };
        let copy = array.copied_outside(clearing)?;
        let is_moved = copy.is_some();
        if is_moved {
            state.here = copy;
            self.yard.count(|moves| _ = moves.shifted.fetch_add(self.tag.bytes, Relaxed));
        }
        Ok(is_moved)
    }

    fn keep(&self, error: Error) {
        if !error.is_out_of_memory() {
            self.device.stream_handle().keep(error);
        }
    }
}

impl<T, D> Drop for Slot<T, D> {
    fn drop(&mut self) {
        recorder::gone(&self.tag);
        if self.state.get_mut().here.is_some() {
            self.yard.went(self.tag.bytes);
        }
    }
}
