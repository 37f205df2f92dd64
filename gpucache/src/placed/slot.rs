//! Where an array is, and how it moves.
//!
//! Invariants: an array is on the device, or away, or both, and then both are equal unless it was written since it came (`is_clean`).
//! It leaves only where nobody has it locked, and only once its copy on the host is complete in the order of the streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::placement::{Chosen, Placement};
use super::recorder;
use super::yard::{Rests, Tag, Yard};
use crate::array::{Array, Away, Element, same_elements};
use crate::base::error::{Error, Result};
#[cfg(feature = "tracing")]
use crate::base::subscriber::TARGET;
use crate::device::Device;
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
    pub(super) away: Option<Away<T>>,
    pub(super) is_clean: bool,
    /// The copy by which it came, until the array's stream comes behind that.
    pub(super) arrival: Option<Fence>,
    /// The copy by which it was written back, which does not hinder those who read it.
    pub(super) departure: Option<Fence>,
}

impl<T: Element, D: Device> State<T, D> {
    /// Puts the array's stream behind the copy by which it came: the copies that the lane makes later are nothing to it.
    fn arrive(&mut self) -> Result<()> {
        follow(&mut self.here, &mut self.arrival)
    }

    /// The same behind the copy by which it was written back, for who writes it or has it leave.
    pub(super) fn settle(&mut self) -> Result<()> {
        self.arrive()?;
        follow(&mut self.here, &mut self.departure)
    }

    /// The array, if it is on the device and its stream behind the copy by which it came.
    #[inline]
    pub(super) fn settled(&self) -> Option<&Array<T, D>> {
        self.here.as_ref().filter(|_| self.arrival.is_none())
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

    /// The state, for somebody who reads the array.
    #[inline]
    pub(super) fn read(&self) -> RwLockReadGuard<'_, State<T, D>> {
        // Not behind a writer that waits: the thread may have the array lent already.
        self.state.read_recursive()
    }

    pub(super) fn try_write(&self) -> Option<RwLockWriteGuard<'_, State<T, D>>> {
        self.state.try_write()
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, State<T, D>> {
        self.state.write()
    }

    /// Has the array come, which is away: makes room for it before. Returns whether it came.
    fn come(&self, state: &mut State<T, D>) -> Result<bool> {
        let (Some(away), None) = (&state.away, &state.here) else { return Ok(false) };
        let lanes = self.yard.lanes()?;
        self.yard.make_room(self.tag.bytes);
        let (array, copy) = away.copy_in(&self.device, &lanes.inward)?;
        (state.here, state.arrival) = (Some(array), Some(copy));
        state.is_clean = true;
        self.yard.came(self.tag.bytes);
        self.yard.moves.bytes_in.fetch_add(self.tag.bytes, Relaxed);
        Ok(true)
    }

    /// The same for somebody who asks for the array now: its stream comes behind the copy.
    pub(super) fn come_for(&self, state: &mut State<T, D>) -> Result<bool> {
        if state.here.is_some() {
            return state.arrive().map(|()| false);
        }
        self.yard.moves.demanded.fetch_add(1, Relaxed);
        self.yard.moves.bytes_demanded.fetch_add(self.tag.bytes, Relaxed);
        let has_come = self.come(state)?;
        if state.here.is_some() { state.arrive().map(|()| has_come) } else { Err(gone()) }
    }

    /// Copies the array to the host, if it was written since it was there. Returns whether it was.
    fn copy_out(&self, state: &mut State<T, D>) -> Result<bool> {
        let Some(here) = state.here.as_ref().filter(|_| !state.is_clean) else { return Ok(false) };
        let lanes = self.yard.lanes()?;
        let (away, copy) = here.copy_out(&lanes.outward, state.away.take())?;
        (state.away, state.departure) = (Some(away), Some(copy));
        state.is_clean = true;
        self.yard.moves.bytes_out.fetch_add(self.tag.bytes, Relaxed);
        Ok(true)
    }

    /// Tells a subscriber of `tracing` of a move, if it was made. Whoever hears it may ask for the array: where others can, nobody has
    /// it locked any more.
    #[cfg(feature = "tracing")]
    pub(super) fn tell(&self, is_made: bool, way: &str) {
        if is_made {
            let (device, bytes) = (self.device.stream_handle().memory_id(), self.tag.bytes);
            tracing::debug!(target: TARGET, device, bytes, way, "array moved");
        }
    }

    /// Gives the elements another shape.
    ///
    /// # Errors
    /// [`is_invalid_shape`](Error::is_invalid_shape) for a shape of another number of them; the array is as it was then.
    pub(super) fn reshape(&self, dims: &[usize], before: &[usize]) -> Result<()> {
        same_elements::<T>(dims, before)?;
        let state = &mut *self.state.write();
        if let Some(here) = state.here.take() {
            state.here = Some(here.reshape(dims)?);
        }
        if let Some(away) = &mut state.away {
            away.reshape(dims);
        }
        Ok(())
    }

    /// The array is the program's from now on, or gone.
    pub(super) fn take(&self) -> Result<Option<Array<T, D>>> {
        let mut state = self.state.write();
        let _has_come = self.come(&mut state)?;
        state.settle()?;
        let array = state.here.take();
        if array.is_some() {
            self.yard.went(self.tag.bytes);
        }
        #[cfg(feature = "tracing")]
        self.tell(_has_come, "in");
        Ok(array)
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
        let Some(mut state) = self.state.try_write() else { return Ok(()) };
        let _is_copied = self.copy_out(&mut state)?;
        drop(state);
        #[cfg(feature = "tracing")]
        self.tell(_is_copied, "out");
        Ok(())
    }

    fn evict(&self) -> Result<u64> {
        let Some(mut state) = self.state.try_write() else { return Ok(0) };
        let _is_copied = self.copy_out(&mut state)?;
        state.settle()?;
        let Some(array) = state.here.take() else { return Ok(0) };
        drop((array, state));
        self.yard.went(self.tag.bytes);
        self.yard.moves.evictions.fetch_add(1, Relaxed);
        #[cfg(feature = "tracing")]
        {
            self.tell(_is_copied, "out");
            self.tell(true, "evicted");
        }
        Ok(self.tag.bytes)
    }

    fn bring(&self) -> Result<bool> {
        let Some(mut state) = self.state.try_write() else { return Ok(false) };
        let has_come = self.come(&mut state)?;
        drop(state);
        #[cfg(feature = "tracing")]
        self.tell(has_come, "in");
        Ok(has_come)
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
