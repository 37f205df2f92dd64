//! How an array comes to the device, for who asks for it and ahead.
//!
//! One thread has it come, and others that ask for it wait. Where that thread runs a handler of the shortage that it met they do not, as
//! the handler may wait for them: each tries by itself, and without handlers.

use std::time::Duration;

use super::{Locked, Slot, gone};
use crate::array::{Array, Element, Room};
use crate::device::Device;
use crate::offload::recorder;
use gpucache_engine::base::amounts::add;
use gpucache_engine::base::errand::Turn;
use gpucache_engine::device::Memory;
use gpucache_engine::{Error, Result};

/// How long a thread that finds no memory by itself waits for another one that has the array come and runs a handler meanwhile: as
/// long as an allocation waits for what is free in a moment. The handler may wait for this very thread.
const HANDLER: Duration = Duration::from_millis(250);

impl<T: Element, D: Device> Slot<T, D> {
    /// Has the array come for somebody who asks for it now, or waits for another thread that does. Where it is then is to be looked at.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) in a handler of the shortage that this thread met as it had the array come; otherwise what
    /// the device or a shortage says.
    #[cold]
    pub(in crate::offload) fn come(&self) -> Result<()> {
        self.watch(|| self.come_now())
    }

    fn come_now(&self) -> Result<()> {
        let Some(dims) = self.find_away()? else { return Ok(()) };
        if self.coming.is_mine() {
            let detail = "a pressure handler fetches the array that is already being fetched";
            return Err(Error::unavailable("a fetch", detail, "have the handler use other arrays"));
        }
        let Some(turn) = self.coming.begin() else { return Ok(()) };
        recorder::count(&self.pool, |stats| {
            stats.demanded += 1;
            add(&mut stats.bytes_demanded, self.tag.bytes);
        });
        match self.copy_in(turn, &dims) {
            // It may be the other thread that has the memory, with the array in it by now.
            Err(error) if error.is_out_of_memory() && (self.coming.wait_for_others(HANDLER) || self.has_come()) => {
                Ok(())
            }
            came => came.map(|_| ()),
        }
    }

    /// Whether the array is on the device, or somebody has it locked, so that it is to be looked for again.
    fn has_come(&self) -> bool {
        self.try_read().is_none_or(|state| state.here.is_some())
    }

    /// Has the array come for nobody in particular, if it is away and no other thread has it come. Returns whether it came.
    pub(super) fn come_ahead(&self) -> Result<bool> {
        let state = self.try_lock();
        let dims = state.and_then(|state| Some(state.away.as_ref().filter(|_| state.here.is_none())?.shape().into()));
        let dims: Option<Box<[usize]>> = dims;
        match dims.zip(self.coming.try_begin()) {
            Some((dims, turn)) => self.watch(|| self.copy_in(turn, &dims)),
            None => Ok(false),
        }
    }

    /// The shape of the array, if it is away. `None` if it is on the device, where its stream comes behind the copy by which it came, or if
    /// somebody has it locked, so that it is to be looked for again.
    fn find_away(&self) -> Result<Option<Box<[usize]>>> {
        let Some(mut state) = self.try_lock() else {
            std::thread::yield_now();
            return Ok(None);
        };
        match (&state.here, &state.away) {
            (Some(_), _) => state.arrive().map(|()| None),
            (None, Some(away)) => Ok(Some(away.shape().into())),
            (None, None) => Err(gone()),
        }
    }

    /// Copies the array in: to memory that is found while nothing is locked. Returns whether it did, and not another thread.
    fn copy_in(&self, turn: Turn<'_>, dims: &[usize]) -> Result<bool> {
        let copy_streams = self.pool.copy_streams()?;
        let find_room = || {
            self.pool.make_room(self.stream(), self.tag.bytes);
            Room::new(self.stream(), dims)
        };
        // Declared before the lock, so that it goes back behind that.
        let mut room = Some(if turn.is_beside_others { Memory::without_handlers(find_room) } else { find_room() }?);
        let Some(mut state) = self.lock_if_away() else { return Ok(false) };
        let Some(away) = state.away.as_mut().filter(|away| room.as_ref().is_some_and(|room| room.is_for(away.shape())))
        else {
            return Ok(false);
        };
        let Some((array, fence, span)) = away.copy_in(&copy_streams.inward, &mut room, recorder::timing().is_some())?
        else {
            return Ok(false);
        };
        (state.here, state.arrival, state.is_clean) = (Some(array), Some(fence), true);
        drop(state);
        self.pool.came(self.tag.bytes);
        self.moved(span, |stats| &mut stats.bytes_in);
        self.tell("in");
        Ok(true)
    }

    /// The state, locked, if the array is away.
    fn lock_if_away(&self) -> Option<Locked<'_, T, D>> {
        loop {
            match self.try_lock() {
                Some(state) => return Some(state).filter(|state| state.here.is_none()),
                // Whoever has an array lent that is here has it for long.
                None if self.try_read().is_some_and(|state| state.here.is_some()) => return None,
                None => std::thread::yield_now(),
            }
        }
    }

    /// Has the array come for somebody who writes it, and gives the host's copy of it up.
    #[cold]
    pub(in crate::offload) fn come_to_be_written(&self) -> Result<()> {
        let mut state = self.lock_here()?;
        if state.arrival.is_some() || state.departure.is_some() {
            self.watch(|| state.settle())?;
        }
        state.is_clean = false;
        // Out of date: the host's memory is for what is away. It goes back behind the lock.
        let outdated = state.away.take();
        drop(state);
        drop(outdated);
        Ok(())
    }

    /// The array is the program's from now on, or gone.
    pub(in crate::offload) fn take(&self) -> Result<Option<Array<T, D>>> {
        let mut state = self.lock_here()?;
        self.watch(|| state.settle())?;
        let array = state.here.take();
        drop(state);
        self.pool.went(self.tag.bytes);
        Ok(array)
    }

    /// The state, locked, once the array is on the device.
    fn lock_here(&self) -> Result<Locked<'_, T, D>> {
        loop {
            let state = self.lock();
            if state.here.is_some() {
                return Ok(state);
            }
            drop(state);
            self.watch(|| self.come_now())?;
        }
    }
}
