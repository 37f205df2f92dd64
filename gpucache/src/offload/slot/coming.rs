//! How an array comes to the device: for a fetch, or ahead of it.
//!
//! One thread brings the array, and other threads that fetch it wait. If that thread runs a pressure handler, they do not wait for it,
//! since the handler may wait for them. Each of them then tries on its own, without handlers.

use std::time::Duration;

use super::{Locked, Slot, find_room, gone};
use crate::array::{Array, Element};
use crate::device::Device;
use crate::offload::recorder;
use gpucache_engine::base::errand::Turn;
use gpucache_engine::device::Memory;
use gpucache_engine::{Error, Result};

/// How long a thread that finds no memory waits for another thread that brings the array and runs a handler meanwhile. It is as long as an
/// allocation waits for pending work. The handler may wait for this very thread.
const HANDLER: Duration = Duration::from_millis(250);

type LockAway<T, D> = for<'a> fn(&'a Slot<T, D>) -> Option<Locked<'a, T, D>>;

impl<T: Element, D: Device> Slot<T, D> {
    /// Brings the array for a fetch, or waits for another thread that brings it. The caller looks again where the array is.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) in a pressure handler that runs because this thread brings the array; otherwise a
    /// failure of the device, or an out-of-memory error.
    #[cold]
    pub(in crate::offload) fn come(&self) -> Result<()> {
        self.watch(|| self.come_now())
    }

    fn come_now(&self) -> Result<()> {
        let Some(dims) = self.find_away()? else { return Ok(()) };
        if self.coming.is_mine() {
            let detail = "a pressure handler fetches the array that is already being fetched";
            return Err(Error::unavailable("an array on the host", detail, "have the handler use other arrays"));
        }
        let Some(turn) = self.coming.begin() else { return Ok(()) };
        // Another thread may have brought it before this turn.
        if self.has_come() {
            return Ok(());
        }
        let came = self.copy_in(turn, &dims, recorder::address(&self.tag), Slot::lock_if_away);
        if let Ok(true) = came {
            recorder::count_demanded(&self.pool, self.tag.bytes);
        }
        match came {
            // The other thread may have the memory, with the array in it by now.
            Err(error) if error.is_shortage() && (self.coming.wait_for_others(HANDLER) || self.has_come()) => Ok(()),
            came => came.map(|_| ()),
        }
    }

    /// Whether the array is on the device, or is locked so that the caller has to look again.
    fn has_come(&self) -> bool {
        self.try_read().is_none_or(|state| state.here.is_some())
    }

    /// Brings the array ahead of its use, if it is on the host and no other thread brings it. Returns whether it came.
    pub(super) fn come_ahead(&self, at: Option<u64>) -> Result<bool> {
        let state = self.try_lock();
        let dims = state.and_then(|state| Some(state.away.as_ref().filter(|_| state.here.is_none())?.shape().into()));
        let dims: Option<Box<[usize]>> = dims;
        match dims.zip(self.coming.try_begin()) {
            // Where another thread has a guard to write by now, it may keep that for long. A fetch makes up for it.
            Some((dims, turn)) => self.watch(|| self.copy_in(turn, &dims, at, Slot::try_lock_away)),
            None => Ok(false),
        }
    }

    /// The shape of the array, if it is on the host. `None` if it is on the device (then its stream waits for the copy), or if it is
    /// locked so that the caller has to look again.
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

    /// Copies the array to the device, to memory that is allocated while nothing is locked: at the address `at`, if that is free. Then
    /// `lock` locks the state, if the array is still on the host. Returns whether this thread did it.
    fn copy_in(&self, turn: Turn<'_>, dims: &[usize], at: Option<u64>, lock: LockAway<T, D>) -> Result<bool> {
        let copy_streams = self.pool.copy_streams()?;
        let find_room = || find_room(&self.pool, self.stream(), dims, (self.tag.bytes, at));
        // Declared before the lock, so that it is freed after the lock.
        let mut room = Some(if turn.is_beside_others { Memory::without_handlers(find_room) } else { find_room() }?);
        let Some(mut state) = lock(self) else { return Ok(false) };
        let Some(away) = state.away.as_mut().filter(|away| room.as_ref().is_some_and(|room| room.is_for(away.shape())))
        else {
            return Ok(false);
        };
        let Some((array, fence, span)) = away.copy_in(&copy_streams.inward, &mut room, recorder::timing().is_some())?
        else {
            return Ok(false);
        };
        self.put_here(&mut state, array);
        (state.arrival, state.is_clean) = (Some(fence), true);
        // Under the lock: once it is released, the array may leave, and bytes that leave before they are counted stay in the sum for ever.
        self.pool.came(self.tag.bytes);
        drop(state);
        self.moved(span, |stats| &mut stats.bytes_in);
        self.tell("in");
        Ok(true)
    }

    /// The state, locked, if the array is on the host and nobody has it locked.
    fn try_lock_away(&self) -> Option<Locked<'_, T, D>> {
        self.try_lock().filter(|state| state.here.is_none())
    }

    /// The state, locked, if the array is on the host. Nobody but a prefetch or an eviction has it locked there, for a moment.
    fn lock_if_away(&self) -> Option<Locked<'_, T, D>> {
        loop {
            match self.try_lock() {
                Some(state) => return Some(state).filter(|state| state.here.is_none()),
                // A guard of an array on the device may live for long.
                None if self.try_read().is_some_and(|state| state.here.is_some()) => return None,
                None => std::thread::yield_now(),
            }
        }
    }

    /// Brings the array to be written, and gives up the copy on the host.
    #[cold]
    pub(in crate::offload) fn come_to_be_written(&self) -> Result<()> {
        let mut state = self.lock_here()?;
        if state.arrival.is_some() || state.departure.is_some() {
            self.watch(|| state.settle())?;
        }
        state.is_clean = false;
        // The copy is out of date. Its host memory is freed after the lock.
        let outdated = state.away.take();
        drop(state);
        drop(outdated);
        Ok(())
    }

    /// Takes the array out of the slot.
    pub(in crate::offload) fn take(&self) -> Result<Option<Array<T, D>>> {
        let mut state = self.lock_here()?;
        self.watch(|| state.settle())?;
        let array = self.take_here(&mut state);
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::device::Virtual;
    use crate::offload::host_pool::Rests;
    use crate::offload::{Placement, host_pools};

    const PAGE: usize = 2 << 20;

    /// A pressure handler lets another thread in while a prefetch looks for memory.
    #[test]
    fn a_prefetch_gives_up_where_another_thread_writes() {
        let device = Virtual::new(1 << 30);
        device.set_limit((2 * PAGE) as u64).unwrap();
        let array = Array::<u8, _>::zeros(&device, PAGE).unwrap();
        let slot = Slot::new(host_pools::of(device.stream_handle()), array, Placement::Auto);
        assert_eq!(slot.evict().unwrap(), PAGE as u64);
        let full = Mutex::new(Some(Array::<u8, _>::zeros(&device, 2 * PAGE).unwrap()));
        let (writes, (end, ends)) = (slot.clone(), channel::<()>());
        let ends = Arc::new(Mutex::new(ends));
        let _handler = device.on_pressure(move |_| {
            let (writes, ends, (tell, told)) = (writes.clone(), ends.clone(), channel());
            full.lock().unwrap().take();
            std::thread::spawn(move || {
                writes.come_to_be_written().unwrap();
                let _guard = writes.write();
                tell.send(()).unwrap();
                let _ = ends.lock().unwrap().recv();
            });
            told.recv().unwrap();
        });
        let (tell, told) = channel();
        let comes = slot.clone();
        std::thread::spawn(move || tell.send(comes.come_ahead(None).unwrap()).unwrap());
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(false));
        end.send(()).unwrap();
    }
}
