//! One of the streams that share memory: its epochs, the calls that close and complete them, and the epochs that it waited for.
//!
//! Invariants:
//! - `waited[s]` is the last epoch of slot `s` that the stream is ordered behind.
//! - A slot keeps its stream alive while the stream's work may use memory. If a slot has no stream, all epochs up to `used` are complete.
//! - Epoch numbers continue when another stream gets the slot. So facts about old epochs stay true.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use super::epochs::{Epoch, Epochs};
use super::unknown::FreeMoment;
use crate::base::errand::ENDING;
use crate::base::error::{Error, Result};
use crate::base::per_thread::THREAD;
use crate::device::{Backend, Event, Meter, Stream};

#[derive(Default)]
pub(super) struct StreamSlot {
    pub(super) id: u64,
    /// The queue of the stream's work.
    pub(super) queue: u64,
    /// Whether only this stream may use the memory that it freed, even if all work is complete.
    pub(super) is_reserved: bool,
    /// Memory that was freed in an earlier epoch counts as freed in this one: the end of a reservation.
    pub(super) floor: Epoch,
    /// The first epoch of the stream that has the slot now.
    pub(super) began: Epoch,
    /// `None` after the stream ended and all its work is done.
    pub(super) stream: Option<Arc<dyn Backend>>,
    epochs: Epochs<Arc<dyn Event>>,
    /// The stream's own copy of its epoch. Work that is put on the stream belongs to this epoch or an earlier one.
    told: Arc<AtomicU64>,
    /// The flag by which other threads request the end of the open epoch.
    wanted: Arc<AtomicBool>,
    /// An epoch for which a wait was in vain. Until it is complete, nobody waits for the stream again.
    stuck: Epoch,
    /// An epoch for which a request waited in vain for as long as requests wait. Until it is complete, none waits for the stream.
    pub(super) outlasted: Epoch,
    /// An epoch that took longer than a moment.
    slow: Epoch,
    /// The last thread that worked on the stream, as far as is known here.
    thread: Weak<()>,
    /// The last epoch in which the stream freed memory.
    pub(super) freed: Epoch,
    /// When a stream in this slot last freed memory.
    pub(super) last_freed: FreeMoment,
    used: Epoch,
    /// The bytes of the stream's blocks, and the most of them at once.
    pub(super) held: u64,
    pub(super) most_held: u64,
    waited: Vec<Epoch>,
    /// The last visit at which the stream was asked how far it is.
    pub(super) asked: u64,
}

impl StreamSlot {
    /// Gives the slot to a stream. Unlike the slot's previous stream, it has waited for nobody.
    pub(super) fn begin(&mut self, stream: &Stream) {
        (self.id, self.queue) = (stream.id(), stream.queue());
        (self.stream, self.is_reserved) = (Some(stream.shared_backend().clone()), stream.is_reserved());
        self.told = stream.epoch_cell().clone();
        self.began = self.epochs.open();
        self.told.store(self.began.0, SeqCst);
        self.wanted = stream.wanted_cell().clone();
        self.waited.clear();
        (self.held, self.most_held) = (0, 0);
    }

    /// Takes out the stream, whose work is done, for the caller to drop.
    pub(super) fn end(&mut self) -> Option<Arc<dyn Backend>> {
        self.epochs.retire();
        self.stream.take()
    }

    /// Ends the reservation: others may use the memory that the stream freed once all its work so far is done.
    #[cfg(any(feature = "cuda", test))]
    pub(super) fn release(&mut self) {
        self.is_reserved = false;
        self.freed = self.use_now();
        self.floor = self.freed;
    }

    /// The epoch after which others may use memory that was freed in `epoch`.
    #[inline]
    pub(super) fn end_of(&self, epoch: Epoch) -> Epoch {
        epoch.max(self.floor)
    }

    /// Whether only the stream in this slot may use memory that was freed in `epoch`. Memory that an earlier stream freed is not reserved.
    #[inline]
    pub(super) fn reserves(&self, epoch: Epoch) -> bool {
        self.is_reserved && epoch >= self.began
    }

    /// Whether it is known that nobody uses memory any more that was freed in `epoch`.
    #[inline]
    pub(super) fn is_idle(&self, epoch: Epoch) -> bool {
        !self.reserves(epoch) && self.is_complete(self.end_of(epoch))
    }

    /// Notes that memory is used or freed in the open epoch, and returns it.
    #[inline]
    pub(super) fn use_now(&mut self) -> Epoch {
        self.used = self.epochs.open();
        self.used
    }

    /// Notes that the calling thread works on the stream.
    #[inline]
    pub(super) fn attend(&mut self) {
        let attended = with_thread(|here| {
            if !std::ptr::eq(self.thread.as_ptr(), Arc::as_ptr(here)) {
                self.thread = Arc::downgrade(here);
            }
        });
        if attended.is_none() {
            self.thread = Weak::new();
        }
    }

    /// Whether another thread requested the end of the open epoch, and it can end now. If so, this clears the request.
    #[inline]
    pub(super) fn take_wish(&self) -> bool {
        self.wanted.load(Relaxed) && !self.is_capturing() && self.wanted.swap(false, Relaxed)
    }

    /// Ends the open epoch, if memory was used in it.
    #[cold]
    pub(super) fn end_epoch(&mut self, meter: &Meter) {
        if self.is_open(self.used) {
            // If the call fails, the end is requested again.
            let _ = self.close(meter);
        }
    }

    /// Whether nobody has a handle of the stream any more.
    pub(super) fn is_orphan(&self) -> bool {
        self.stream.is_some() && Arc::strong_count(&self.told) == 1
    }

    /// Whether the calling thread may record an event on the stream. It may if no other living thread works on the stream, as far as is
    /// known, or if the backend allows any thread to record.
    pub(super) fn is_mine_to_record(&self) -> bool {
        let is_here = || with_thread(|here| std::ptr::eq(self.thread.as_ptr(), Arc::as_ptr(here))).unwrap_or(false);
        self.thread.strong_count() == 0
            || is_here()
            || self.stream.as_ref().is_none_or(|stream| stream.records_for_anyone())
    }

    pub(super) fn waited_for(&self, other: usize) -> Epoch {
        self.waited.get(other).copied().unwrap_or_default()
    }

    pub(super) fn is_capturing(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.is_capturing())
    }

    pub(super) fn is_complete(&self, epoch: Epoch) -> bool {
        self.epochs.is_complete(epoch)
    }

    pub(super) fn is_open(&self, epoch: Epoch) -> bool {
        self.epochs.is_open(epoch)
    }

    /// Queries whether a closed epoch is complete, and remembers the answer.
    pub(super) fn ask(&mut self, epoch: Epoch, meter: &Meter) -> Result<bool> {
        let Some(event) = self.epochs.event(epoch) else { return Ok(false) };
        meter.queried();
        let is_complete = event.is_complete()?;
        if is_complete {
            self.epochs.complete(epoch);
        }
        Ok(is_complete)
    }

    /// The event of an epoch. If the epoch is open, this closes it. `None` if the epoch is complete.
    ///
    /// # Errors
    /// A failure of the device, or a capture that another thread begins at this moment.
    pub(super) fn event(&mut self, epoch: Epoch, meter: &Meter) -> Result<Option<(Epoch, &dyn Event)>> {
        if self.is_open(epoch) && !self.close(meter)? {
            return Err(captured());
        }
        // An epoch that has not begun counts as the one that was open.
        let epoch = epoch.min(self.epochs.newest());
        Ok(self.epochs.event(epoch).map(|event| (epoch, &**event)))
    }

    /// Makes the stream's later work wait for an epoch of another slot.
    pub(super) fn wait(&mut self, other: usize, epoch: Epoch, event: &dyn Event, meter: &Meter) -> Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        meter.waited();
        stream.wait(event)?;
        if self.waited.len() <= other {
            self.waited.resize(other + 1, Epoch::default());
        }
        self.waited[other] = epoch;
        Ok(())
    }

    /// Closes the open epoch, with a complete event if there is one, otherwise with a new one. Returns whether the epoch is closed: another
    /// thread may begin to capture the stream at any moment. An event that it captured belongs to its graph. A query of that event
    /// fails, and ends the capture.
    fn close(&mut self, meter: &Meter) -> Result<bool> {
        let spare = self.spare(meter)?;
        let Some(stream) = &self.stream else { return Ok(true) };
        let event = spare.map_or_else(|| stream.new_event(), Ok)?;
        meter.recorded();
        // This fulfils a request for the end of this epoch. A thread that sees the next epoch requests its end anew.
        self.wanted.store(false, Relaxed);
        // If a thread put work on the stream and then still sees the open epoch, the work was there before this recording.
        self.told.store(self.epochs.open().0 + 1, SeqCst);
        // The capture may have begun before the recording or after it. Nobody tells which, so the event is not used.
        let recorded = stream.record(&*event).map(|()| !(stream.can_capture() && stream.is_capturing()));
        match recorded {
            Ok(true) => self.epochs.close(event),
            Ok(false) | Err(_) => self.epochs.spare.push(event),
        }
        recorded
    }

    /// Takes an event that can be recorded again.
    fn spare(&mut self, meter: &Meter) -> Result<Option<Arc<dyn Event>>> {
        if self.epochs.spare.is_empty() {
            self.ask(self.epochs.oldest(), meter)?;
        }
        Ok(self.epochs.spare.pop())
    }

    /// Whether all work is done that uses memory which the stream freed or used. Queries, and does not wait.
    pub(super) fn is_done(&mut self, meter: &Meter) -> Result<bool> {
        if self.is_complete(self.used) {
            return Ok(true);
        }
        if self.is_capturing() {
            return Ok(false);
        }
        if self.is_open(self.used) {
            self.close(meter)?;
        }
        self.ask(self.used, meter)
    }

    /// Like [`look`](StreamSlot::look), with events only if the calling thread may record them. It ends the open epoch only once earlier
    /// ones are complete, so many calls record few events.
    pub(super) fn glance(&mut self, meter: &Meter) -> Result<()> {
        if self.is_complete(self.used) || self.is_reserved || self.is_capturing() {
            return Ok(());
        }
        let newest = self.epochs.newest();
        match self.is_complete(newest) || self.ask_back_from(newest, meter)? {
            true => self.look(self.is_mine_to_record(), meter),
            false => Ok(()),
        }
    }

    /// Queries how far the stream is, as far as possible. If it `may_record` an event, it ends the open epoch.
    pub(super) fn look(&mut self, may_record: bool, meter: &Meter) -> Result<()> {
        if self.is_complete(self.used) || self.is_reserved || self.is_capturing() {
            return Ok(());
        }
        if self.is_open(self.used) {
            match may_record {
                true if !self.close(meter)? => return Ok(()),
                true => {}
                // Asks the thread that works on the stream to end the open epoch.
                false => self.wanted.store(true, Relaxed),
            }
        }
        let newest = self.used.min(self.epochs.newest());
        self.ask_back_from(newest, meter).map(|_| ())
    }

    /// Queries whether a closed epoch is complete. If not, it queries the oldest epoch too. Returns the first answer.
    fn ask_back_from(&mut self, epoch: Epoch, meter: &Meter) -> Result<bool> {
        let is_complete = self.ask(epoch, meter)?;
        if !is_complete && self.epochs.oldest() < epoch {
            self.ask(self.epochs.oldest(), meter)?;
        }
        Ok(is_complete)
    }

    /// The last epoch in which memory was freed or used, if it is closed and not known to be complete, and if others may use the memory
    /// then.
    fn unfinished(&self) -> Option<Epoch> {
        let is_unfinished = !self.is_reserved && !self.is_complete(self.used) && !self.is_open(self.used);
        is_unfinished.then_some(self.used)
    }

    /// As [`pending`](StreamSlot::pending), also if a short wait was in vain before. A wait for it may take long. Captured work does not run
    /// at all. A closure may wait for the caller, but most take a while only. Closures of one stream may wait for those of another one, so a
    /// caller that runs in a closure waits for none.
    pub(super) fn under_way(&self) -> Option<Epoch> {
        let in_closure = THREAD.with(|thread| thread.does_host_work.get());
        let has_end = |stream: &Arc<dyn Backend>| !(stream.is_capturing() || in_closure && stream.runs_closures());
        self.unfinished().filter(|_| self.is_complete(self.outlasted) && self.stream.as_ref().is_some_and(has_end))
    }

    /// Whether an epoch is known to be complete, or the stream is being captured.
    pub(super) fn is_over(&self, epoch: Epoch) -> bool {
        self.is_complete(epoch) || self.is_capturing()
    }

    /// The last epoch in which memory was freed or used, if it is closed and not known to be complete, and if a wait for it may help.
    pub(super) fn pending(&self) -> Option<Epoch> {
        self.unfinished().filter(|_| self.is_complete(self.stuck))
    }

    /// Whether the stream's work took longer than a moment, and is not known to be done.
    pub(super) fn is_slow(&self) -> bool {
        !self.is_complete(self.slow)
    }

    /// Notes that the pending work was not done in a moment.
    pub(super) fn was_slow(&mut self) {
        self.slow = self.pending().unwrap_or(self.slow);
    }

    /// Notes that a wait for the pending work was in vain.
    pub(super) fn give_up(&mut self) {
        self.stuck = self.pending().unwrap_or(self.stuck);
    }
}

/// Calls `act` with a value that identifies the calling thread and lives as long as it does. `None` if the thread is ending.
#[inline]
fn with_thread<R>(act: impl FnOnce(&Arc<()>) -> R) -> Option<R> {
    ENDING.try_with(|ending| act(ending.alive.get_or_init(Arc::default))).ok()
}

/// The error for work that would have to wait for a capture, or a capture for other work.
pub(super) fn captured() -> Error {
    Error::unavailable(
        "memory that another stream used",
        "a CUDA graph is being captured, and a graph cannot wait for work outside it",
        "let the stream wait for the other one before the capture",
    )
}
