//! Uses of a block by streams that are not its own: which stream waits for which, and for which uses the memory's next life waits.
//!
//! The crate does not see work that is put on a stream. So a use lasts from its announcement until the block is dropped. The drop calls no
//! device.
//!
//! Invariants: every stream in `readers` waits for `writer`, or for the block's own stream if there is no writer. `writer` waits for all
//! uses of the block before it.

use std::sync::Arc;

use super::outcome::Outcome;
use crate::base::error::Result;
use crate::device::Stream;

/// The uses of a block by other streams in this life.
#[derive(Default)]
pub(super) struct Uses {
    /// The stream whose work wrote the block last, if that is not its own stream.
    writer: Option<Stream>,
    /// The streams that read the last written contents.
    readers: Vec<Stream>,
    /// The epoch of each of [`users`](Uses::users), in their order, when the block was dropped. Empty before the drop.
    until: Vec<u64>,
    /// The reservations for which the block is kept when it is dropped.
    reservations: Vec<Stream>,
    /// The outcome of the late work that last wrote the block, in the life in which the block was lent to this work.
    pub(super) outcome: Option<Arc<Outcome>>,
}

impl Uses {
    /// Lets later work of `stream` read the block, whose own stream is `home`. `order` first makes `stream` wait for the last write. If
    /// work of `home` may write without an announcement (`is_bare`), each call also makes `stream` wait for the present work of `home`.
    pub(super) fn read(
        &mut self,
        home: &Stream,
        stream: &Stream,
        is_bare: bool,
        order: impl Fn(&Stream, &Stream) -> Result<()>,
    ) -> Result<()> {
        let writer = self.writer.as_ref().unwrap_or(home);
        let is_known = self.knows(writer, stream);
        // If the order below already makes it wait for the home stream, once is enough.
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

    /// Notes that present work of `stream` may use the block. Other code has ordered this work.
    #[cfg(feature = "foreign")]
    pub(super) fn note(&mut self, stream: &Stream) {
        if !self.users().any(|user| user.queue() == stream.queue()) {
            self.readers.push(stream.clone());
        }
    }

    /// Whether a stream waits for the last write: it made that write, or has read it.
    fn knows(&self, writer: &Stream, stream: &Stream) -> bool {
        let is_same = |other: &Stream| other.queue() == stream.queue();
        is_same(writer) || self.readers.iter().any(is_same)
    }

    /// Lets later work of `stream` write the block, whose own stream is `home`, once `order` has made it wait for all uses. If `is_told`, work
    /// of `home` uses the block only with an announcement. Then a stream that wrote the block last waits for nothing.
    pub(super) fn write(
        &mut self,
        home: &Stream,
        stream: &Stream,
        is_told: bool,
        order: impl Fn(&Stream, &Stream) -> Result<()>,
    ) -> Result<()> {
        let is_writer = self.writer.as_ref().is_some_and(|writer| writer.queue() == stream.queue());
        if is_told && is_writer && self.readers.is_empty() {
            return Ok(());
        }
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

    /// Notes that the block was dropped. Its next life then waits only for the present work of its users. Calls no device.
    pub(super) fn end(&mut self) {
        let Uses { writer, readers, until, .. } = self;
        until.clear();
        until.extend(writer.iter().chain(&*readers).map(Stream::epoch));
    }

    /// The users, each with the latest epoch that may contain its last use; 0 if epochs were not counted.
    pub(super) fn ends(&self) -> impl Iterator<Item = (&Stream, u64)> {
        self.users().zip(self.until.iter().copied().chain(std::iter::repeat(0)))
    }

    /// Makes the drop keep the block for a reservation.
    pub(super) fn keep_for(&mut self, reservation: &Stream) {
        if self.reservations.iter().all(|known| known.id() != reservation.id()) {
            self.reservations.push(reservation.clone());
        }
    }

    /// The reservations for which the block is to be kept.
    pub(super) fn reservations(&mut self) -> &mut Vec<Stream> {
        &mut self.reservations
    }

    /// Forgets the users, because the block's own stream waits for them.
    pub(super) fn clear(&mut self) {
        self.writer = None;
        self.readers.clear();
        self.until.clear();
    }
}
