//! Uses of a block by streams that are not its own: who is behind whom, and for whom its memory's next life waits.
//!
//! Work that is put on a stream is not seen, so that a use lasts from when it was announced until the block is dropped,
//! which calls no device. Invariants: every stream in `readers` is behind `writer`, or behind the block's own stream
//! where there is none; `writer` is behind all that used the block before.

use std::sync::Arc;

use super::outcome::Outcome;
use crate::base::error::Result;
use crate::device::Stream;

/// What other streams do with a block in this life.
#[derive(Default)]
pub(super) struct Uses {
    /// Whose work wrote the block last, if that is not its own stream.
    writer: Option<Stream>,
    /// Who reads what was written last.
    readers: Vec<Stream>,
    /// The epoch that each of [`users`](Uses::users) was in, in their order, when the block was dropped; none before.
    until: Vec<u64>,
    /// For whom the block is kept when it is dropped.
    reservations: Vec<Stream>,
    /// How late work ends that wrote the block last, in the life that it was lent to it in.
    pub(super) outcome: Option<Arc<Outcome>>,
}

impl Uses {
    /// Lets later work of `stream` read the block, which is on `home`, once `order` has put it behind the last write; and
    /// behind what is on `home` each time, where that may write without a word (`is_bare`).
    pub(super) fn read(
        &mut self,
        home: &Stream,
        stream: &Stream,
        is_bare: bool,
        order: impl Fn(&Stream, &Stream) -> Result<()>,
    ) -> Result<()> {
        let writer = self.writer.as_ref().unwrap_or(home);
        let is_known = self.knows(writer, stream);
        // Where it is put behind the home stream below, once is enough.
        if is_bare && stream.queue() != home.queue() && (is_known || writer.queue() != home.queue()) {
            order(stream, home)?;
        }
        if is_known {
            return Ok(());
        }
        order(stream, writer)?;
        self.readers.push(stream.clone());
        Ok(())
    }

    /// Work that is on `stream` now may use the block, which somebody else has ordered.
    #[cfg(feature = "foreign")]
    pub(super) fn note(&mut self, stream: &Stream) {
        if !self.users().any(|user| user.queue() == stream.queue()) {
            self.readers.push(stream.clone());
        }
    }

    /// Whether a stream is behind what was written last: it wrote that, or has read it.
    fn knows(&self, writer: &Stream, stream: &Stream) -> bool {
        let is_same = |other: &Stream| other.queue() == stream.queue();
        is_same(writer) || self.readers.iter().any(is_same)
    }

    /// Lets later work of `stream` write the block, which is on `home`, once `order` has put it behind all uses.
    pub(super) fn write(
        &mut self,
        home: &Stream,
        stream: &Stream,
        order: impl Fn(&Stream, &Stream) -> Result<()>,
    ) -> Result<()> {
        let users = self.users().chain([home]).filter(|user| user.queue() != stream.queue());
        users.into_iter().try_for_each(|user| order(stream, user))?;
        self.readers.clear();
        self.writer = (stream.queue() != home.queue()).then(|| stream.clone());
        Ok(())
    }

    /// The streams whose work may still use the block.
    pub(super) fn users(&self) -> impl Iterator<Item = &Stream> {
        self.writer.iter().chain(&self.readers)
    }

    /// The block was dropped: what its users have to do by now is all that its next life waits for. Calls no device.
    pub(super) fn end(&mut self) {
        let Uses { writer, readers, until, .. } = self;
        until.clear();
        until.extend(writer.iter().chain(&*readers).map(Stream::epoch));
    }

    /// The users, each with the epoch in which its last use is at the latest; 0 if that was not counted.
    pub(super) fn ends(&self) -> impl Iterator<Item = (&Stream, u64)> {
        self.users().zip(self.until.iter().copied().chain(std::iter::repeat(0)))
    }

    /// Has the block kept for a reservation.
    pub(super) fn keep_for(&mut self, reservation: &Stream) {
        if self.reservations.iter().all(|known| known.id() != reservation.id()) {
            self.reservations.push(reservation.clone());
        }
    }

    /// For whom the block is to be kept.
    pub(super) fn reservations(&mut self) -> &mut Vec<Stream> {
        &mut self.reservations
    }

    /// Forgets who used it: the block's own stream is behind them.
    pub(super) fn clear(&mut self) {
        self.writer = None;
        self.readers.clear();
        self.until.clear();
    }
}
