//! What a record knows of others that use its memory, and how its own stream is put behind them.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use super::{Origin, Record, UNPLANNED, ticket};
use crate::base::error::Result;
use crate::base::sync::MutexGuard;
use crate::cache::moment::{self, Moment};
use crate::cache::uses::Uses;
use crate::device::Stream;

/// What stands for the epoch of the last write in a life in which somebody has the bare address: work of the block's own
/// stream may write it at any time, and nobody tells.
const BARE: u32 = u32::MAX;
/// The last epoch that can be noted.
const LAST_EPOCH: u32 = BARE - 1;

impl Record {
    /// Lets later work of another stream read the memory.
    pub(in crate::cache) fn read_on(&self, stream: &Stream) -> Result<()> {
        self.follow_view()?;
        let written = self.written.load(Relaxed);
        let is_bare = written == BARE;
        self.uses().read(&self.stream, stream, is_bare, |stream, writer| match written {
            1..=LAST_EPOCH if writer.id() == self.stream.id() && writer.memory_id() == stream.memory_id() => {
                Moment::at(writer, u64::from(written)).precede(stream)
            }
            _ => moment::order(stream, writer),
        })
    }

    /// Orders its own stream behind what the view knows of foreign writes.
    fn follow_view(&self) -> Result<()> {
        self.view.get().map_or(Ok(()), |view| view.follow_writes())
    }

    /// Somebody gets the bare address, for work of its own stream, which comes behind uses that others announced so far.
    pub(in crate::cache) fn bare(&self) -> Result<()> {
        self.written.store(BARE, Relaxed);
        if !self.needs_care() {
            return Ok(());
        }
        self.follow_view()?;
        let uses = self.uses();
        uses.users()
            .filter(|user| user.queue() != self.stream.queue())
            .try_for_each(|user| moment::order(&self.stream, user))
    }

    /// Whether somebody got the bare address in this life.
    #[cfg(feature = "cuda")]
    pub(in crate::cache) fn is_bare(&self) -> bool {
        self.written.load(Relaxed) == BARE
    }

    /// Its own stream has written it, by work that is there already.
    pub(in crate::cache) fn note_write(&self) {
        // One that does not fit is not known.
        let epoch = u32::try_from(self.stream.epoch()).ok().filter(|epoch| *epoch <= LAST_EPOCH);
        self.set_written(epoch.unwrap_or(0));
    }

    /// It may be written by work that nobody tells of.
    #[inline]
    pub(in crate::cache) fn forget_write(&self) {
        self.set_written(0);
    }

    #[inline]
    fn set_written(&self, epoch: u32) {
        if self.written.load(Relaxed) != BARE {
            self.written.store(epoch, Relaxed);
        }
    }

    /// Lets later work of another stream write the memory.
    pub(in crate::cache) fn write_on(&mut self, stream: &Stream) -> Result<()> {
        if let Some(view) = self.view.get_mut() {
            // The block's own stream is behind the view's uses then, and this one behind that.
            view.follow_uses()?;
        }
        let home = self.stream.clone();
        self.uses().write(&home, stream, moment::order)
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        let uses = self.uses.get_or_init(Box::default);
        self.take_care();
        uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The streams that may still use the memory, as far as they said so.
    pub(in crate::cache) fn users(&mut self) -> impl Iterator<Item = &Stream> {
        self.known_uses().into_iter().flat_map(|uses| uses.users())
    }

    fn known_uses(&mut self) -> Option<&mut Uses> {
        Some(self.uses.get_mut()?.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// Orders the memory's own stream behind uses by others, up to moments that cover them.
    ///
    /// # Errors
    /// A failure of the device, or a capture. The uses go on then.
    pub(in crate::cache) fn follow_uses(&mut self, moments: &[Moment]) -> Result<()> {
        let home = self.stream.clone();
        let Some(uses) = self.known_uses() else { return Ok(()) };
        for user in uses.users() {
            match moments.iter().find(|moment| moment.stream().id() == user.id()) {
                _ if user.queue() == home.queue() => {}
                Some(moment) => moment.precede(&home)?,
                None => moment::order(&home, user)?,
            }
        }
        uses.clear();
        self.take_no_more_care();
        Ok(())
    }

    /// Has the block kept for a reservation when it is dropped.
    #[cold]
    pub(in crate::cache) fn keep_for(&self, reservation: &Stream) {
        // Work of the reservation writes it at any time.
        self.written.store(BARE, Relaxed);
        self.uses().keep_for(reservation);
    }

    /// The reservations that the block is to be kept for, once.
    pub(in crate::cache) fn take_reservations(&mut self) -> Option<Vec<Stream>> {
        let taken = std::mem::take(self.known_uses()?.reservations());
        self.take_no_more_care();
        Some(taken).filter(|taken| !taken.is_empty())
    }

    /// A drop has no more to do than to give the memory back, unless there is more.
    fn take_no_more_care(&mut self) {
        let has_view = self.view.get().is_some();
        let has_uses = |uses: &mut Uses| !uses.reservations().is_empty() || uses.users().next().is_some();
        if !has_view && !self.known_uses().is_some_and(has_uses) {
            *self.ticket.get_mut() = ticket(&self.stream, self.own_ticket());
        }
    }

    /// As [`follow_uses`](Record::follow_uses), now, and behind what the view knows.
    pub(in crate::cache) fn end_uses(&mut self) -> Result<()> {
        if let Some(view) = self.view.get_mut() {
            view.follow_uses()?;
        }
        self.follow_uses(&[])
    }

    fn own_ticket(&self) -> u64 {
        if matches!(self.origin, Origin::Plan) { self.home.generation } else { UNPLANNED }
    }
}
