//! The uses of a record's memory by others, as far as known, and how the record's own stream waits for them.
//!
//! Invariant: the kept outcome is of the present life if `last_write` says that there is one.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use super::fence::{self, Fence};
use super::outcome::Outcome;
use super::record::Record;
use super::uses::Uses;
use crate::base::error::{Error, Result};
use crate::base::sync::{MutexGuard, lock};
use crate::device::Stream;

impl Record {
    /// Lets later work of another stream read the memory.
    pub(crate) fn read_on(&self, stream: &Stream) -> Result<()> {
        self.follow_view()?;
        let (is_bare, written) = (self.last_write.is_anytime(), self.last_write.epoch());
        let mut uses = self.uses();
        let is_new = uses.read(self.stream(), stream, is_bare, |stream, writer, end| {
            let own = written.filter(|_| writer.id() == self.stream().id());
            fence::order(stream, writer, own.unwrap_or(end))
        })?;
        // During a capture, a question about work may end it.
        if is_new && !Stream::is_any_in_capture() {
            uses.forget_ended(fence::is_done);
        }
        Ok(())
    }

    /// Notes that present work of another stream of the device may use the memory. The next life then waits for it.
    pub(crate) fn used_by(&self, stream: &Stream) {
        self.uses().note(stream);
    }

    /// Makes its own stream wait for the foreign writes that the view knows of.
    fn follow_view(&self) -> Result<()> {
        self.view.get().map_or(Ok(()), |view| view.follow_writes())
    }

    /// Notes that other code gets the bare address, for work of the record's own stream. That work waits for all uses that others have
    /// announced so far.
    pub(crate) fn bare(&self) -> Result<()> {
        self.last_write.set_anytime();
        if !self.needs_care() {
            return Ok(());
        }
        self.follow_view()?;
        let uses = self.uses();
        uses.users()
            .filter(|user| user.queue() != self.stream().queue())
            .try_for_each(|user| fence::order(self.stream(), user, 0))
    }

    /// Whether other code got the bare address in this life.
    pub(crate) fn is_bare(&self) -> bool {
        self.last_write.is_anytime()
    }

    /// Notes that work which is already on its own stream writes it. Captured work is not on the stream yet, so its epoch is unknown.
    pub(crate) fn note_write(&self) {
        self.note_write_noticed(self.stream().has_notice());
    }

    /// As [`note_write`](Record::note_write), if the stream's notice was already asked for.
    #[inline]
    pub(crate) fn note_write_noticed(&self, may_be_captured: bool) {
        self.last_write.note((!may_be_captured).then(|| self.stream().epoch()));
    }

    /// Notes that unannounced work may write it.
    #[inline]
    pub(crate) fn forget_write(&self) {
        self.last_write.note(None);
    }

    /// Lets later work of another stream write the memory.
    pub(crate) fn write_on(&mut self, stream: &Stream) -> Result<()> {
        if let Some(view) = self.view.get_mut() {
            // Now the block's own stream waits for the view's uses, and below `stream` waits for the block's own stream.
            view.follow_uses()?;
        }
        let home = self.stream().clone();
        let is_told = self.view.get().is_none() && !self.last_write.is_anytime();
        self.uses().write(&home, stream, is_told, fence::order)
    }

    /// Notes that all work of the last write that `stream` announced is on the stream now. Others then wait for no later work of it.
    pub(crate) fn end_write_on(&self, stream: &Stream) {
        if let Some(uses) = self.uses.get() {
            lock(uses).end_write(stream);
        }
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        let uses = self.uses.get_or_init(Box::default);
        self.take_care();
        lock(uses)
    }

    /// Whether other streams may use the memory, or the front end's object knows of uses. A record that is only watched has none.
    pub(crate) fn has_uses(&self) -> bool {
        self.view.get().is_some() || self.uses.get().is_some_and(|uses| lock(uses).users().next().is_some())
    }

    /// The streams that may still use the memory, as far as uses were announced.
    pub(crate) fn users(&mut self) -> impl Iterator<Item = &Stream> {
        self.known_uses().into_iter().flat_map(|uses| uses.users())
    }

    /// Notes that the array was dropped: the next life waits only for the present work of its users. Calls no device. Returns whether there
    /// are any.
    pub(crate) fn note_last_uses(&mut self) -> bool {
        let Some(uses) = self.known_uses() else { return false };
        uses.end();
        uses.users().next().is_some()
    }

    /// Asks the streams that may still use the memory to end their epochs before they do anything else. A stream that waits for them then
    /// does not wait for their later work. Calls no device.
    pub(crate) fn ask_users(&mut self) {
        self.users().for_each(|user| user.wanted_cell().store(true, Relaxed));
    }

    /// The streams that may still use the memory, at the time of its array's drop. Each has the latest epoch that may contain its last use;
    /// 0 if epochs were not counted.
    pub(crate) fn last_uses(&mut self) -> impl Iterator<Item = (&Stream, u64)> {
        self.known_uses().into_iter().flat_map(|uses| uses.ends())
    }

    fn known_uses(&mut self) -> Option<&mut Uses> {
        Some(self.uses.get_mut()?.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the memory's own stream wait for uses by others, up to the fences that cover them.
    ///
    /// # Errors
    /// A failure of the device, or a capture. The uses then continue.
    pub(crate) fn follow_uses(&mut self, fences: &[Fence]) -> Result<()> {
        let home = self.stream().clone();
        let Some(uses) = self.known_uses() else { return Ok(()) };
        for (user, end) in uses.ends() {
            match fences.iter().find(|fence| fence.stream().id() == user.id()) {
                _ if user.queue() == home.queue() => {}
                Some(fence) => fence.precede(&home)?,
                // The user may be a stream of another device: its work copies the memory.
                None => Fence::told(user, end).precede(&home)?,
            }
        }
        uses.clear();
        self.take_no_more_care();
        Ok(())
    }

    /// Makes the drop keep the block for a reservation.
    #[cold]
    pub(crate) fn keep_for(&self, reservation: &Stream) {
        // Work of the reservation may write it at any time.
        self.last_write.set_anytime();
        self.uses().keep_for(reservation);
    }

    /// Whether a reservation keeps the block when it is dropped.
    pub(crate) fn is_kept(&self) -> bool {
        self.uses.get().is_some_and(|uses| !lock(uses).reservations.is_empty())
    }

    /// Takes out the reservations for which the block is to be kept.
    pub(crate) fn take_reservations(&mut self) -> Option<Vec<Stream>> {
        let taken = std::mem::take(&mut self.known_uses()?.reservations);
        self.take_no_more_care();
        Some(taken).filter(|taken| !taken.is_empty())
    }

    /// Notes that the cache that served it has been told of its drop.
    pub(crate) fn unwatch(&mut self) {
        self.is_watched = false;
        self.take_no_more_care();
    }

    /// Notes that a drop only has to return the memory, unless there are a view, uses or reservations.
    fn take_no_more_care(&mut self) {
        let has_view = self.view.get().is_some();
        let has_uses = |uses: &mut Uses| !uses.reservations.is_empty() || uses.users().next().is_some();
        if !has_view && !self.known_uses().is_some_and(has_uses) {
            self.take_no_care();
        }
    }

    /// Makes the memory's own stream wait for all present uses, those that the view knows of included.
    pub(crate) fn end_uses(&mut self) -> Result<()> {
        if let Some(view) = self.view.get_mut() {
            view.follow_uses()?;
        }
        self.follow_uses(&[])
    }

    /// Makes the thread wait for the streams that may still use the memory, because its own stream could not be made to wait. Keeps that
    /// failure.
    ///
    /// # Errors
    /// The failure, if a wait is not possible here. That is so if a stream is being captured, since a wait would end the capture; if the
    /// work is code of this process; or if the device fails the wait too.
    #[cold]
    pub(super) fn outwait_users(&mut self, failure: Error) -> Result<()> {
        let can_wait = |user: &Stream| !user.runs_closures() && !user.is_capturing() && user.synchronize().is_ok();
        let Some(uses) = self.known_uses() else { return Err(failure) };
        if failure.is_unavailable() || !uses.users().all(can_wait) {
            return Err(failure);
        }
        uses.clear();
        self.take_no_more_care();
        self.stream().keep(failure);
        Ok(())
    }

    /// The outcome of the last work that writes the memory, if that is late work.
    #[inline]
    pub(crate) fn outcome(&self) -> Option<Arc<Outcome>> {
        if self.last_write.has_outcome() { self.kept_outcome() } else { None }
    }

    #[cold]
    fn kept_outcome(&self) -> Option<Arc<Outcome>> {
        lock(self.uses.get()?).outcome.clone()
    }

    /// Notes that the memory will contain what the work with this outcome writes. `None` if no late work writes it.
    #[inline]
    pub(crate) fn set_outcome(&mut self, outcome: Option<Arc<Outcome>>) {
        if outcome.is_some() || self.last_write.has_outcome() {
            self.keep_outcome(outcome);
        }
    }

    #[cold]
    fn keep_outcome(&mut self, outcome: Option<Arc<Outcome>>) {
        self.last_write.set_outcome(outcome.is_some());
        self.uses.get_or_init(Box::default);
        if let Some(uses) = self.uses.get_mut() {
            uses.get_mut().unwrap_or_else(PoisonError::into_inner).outcome = outcome;
        }
    }
}
