//! Uses of a block by streams that are not its own: which stream waits for which, and for which uses the memory's next life waits.
//!
//! The crate does not see work that is put on a stream. So a use lasts from its announcement until the block is dropped, unless the code
//! that queued the work of a write tells its end ([`Uses::end_write`]). The drop calls no device.
//!
//! Invariants: every stream in `readers` waits for `writer`, or for the block's own stream if there is no writer. `writer` waits for all
//! uses of the block before it.

use std::sync::Arc;

use super::outcome::Outcome;
use crate::base::error::Result;
use crate::device::{Stream, User};

/// The uses of a block by other streams in this life.
#[derive(Default)]
pub(super) struct Uses {
    /// Whose work wrote the block last, if that is not its own stream.
    writer: Option<LastWriter>,
    /// The streams that read the last written contents, each with its epoch when the block was dropped; 0 before the drop.
    readers: Vec<(User, u64)>,
    /// The reservations for which the block is kept when it is dropped.
    pub(super) reservations: Vec<Stream>,
    /// The outcome of the late work that last wrote the block, in the life in which the block was lent to this work.
    pub(super) outcome: Option<Arc<Outcome>>,
}

/// A stream that is not the block's own, and whose work wrote the block last.
struct LastWriter {
    stream: User,
    /// The number of its announcements whose ends were not told.
    unended: u32,
    /// The epoch of its last use, if all ends were told or the block was dropped; 0 if epochs were not counted.
    ended: u64,
}

/// With this many readers, and with twice as many, and so on, those that have ended are forgotten: a program may make a stream for each task.
const MANY_READERS: usize = 8;

impl LastWriter {
    /// The epoch of its last use; 0 if that is not known.
    fn end(&self) -> u64 {
        if self.unended == 0 { self.ended } else { 0 }
    }
}

impl Uses {
    /// Lets later work of `stream` read the block, whose own stream is `home`. `order` first makes `stream` wait for the last write, up to
    /// an epoch; 0 stands for the present one. If work of `home` may write without an announcement (`is_bare`), each call also makes
    /// `stream` wait for the present work of `home`. Returns whether the stream is a new reader.
    pub(super) fn read(
        &mut self,
        home: &Stream,
        stream: &Stream,
        is_bare: bool,
        order: impl Fn(&Stream, &Stream, u64) -> Result<()>,
    ) -> Result<bool> {
        let (writer, end) = self.writer.as_ref().map_or((home, 0), |writer| (&*writer.stream, writer.end()));
        let is_known = self.knows(writer, stream);
        // If the order below already makes it wait for the home stream, once is enough.
        if is_bare && stream.queue() != home.queue() && (is_known || writer.queue() != home.queue()) {
            order(stream, home, 0)?;
        }
        if is_known {
            self.continue_writer(stream);
            return Ok(false);
        }
        order(stream, writer, end)?;
        self.readers.push((User::of(stream), 0));
        Ok(true)
    }

    /// Forgets readers that get no more work and whose work `is_done`, if there are many.
    pub(super) fn forget_ended(&mut self, is_done: impl Fn(&Stream) -> bool) {
        let number = self.readers.len();
        if number >= MANY_READERS && number.is_power_of_two() {
            self.readers.retain(|(reader, _)| !(reader.is_all() && is_done(reader)));
        }
    }

    /// Notes that present work of `stream` may use the block. Other code has ordered this work.
    pub(super) fn note(&mut self, stream: &Stream) {
        self.continue_writer(stream);
        if !self.users().any(|user| user.queue() == stream.queue()) {
            self.readers.push((User::of(stream), 0));
        }
    }

    /// Notes one more announcement if this stream is the writer.
    fn continue_writer(&mut self, stream: &Stream) {
        if let Some(writer) = self.writer_on(stream) {
            writer.unended = writer.unended.saturating_add(1);
        }
    }

    /// The writer, if it is this stream.
    fn writer_on(&mut self, stream: &Stream) -> Option<&mut LastWriter> {
        self.writer.as_mut().filter(|writer| writer.stream.queue() == stream.queue())
    }

    /// Notes that all work of the last announced write of `stream` is on the stream. Captured work is not: it runs with each launch of its
    /// graph.
    pub(super) fn end_write(&mut self, stream: &Stream) {
        let writer = self.writer.as_mut().filter(|writer| writer.stream.id() == stream.id());
        if let Some(writer) = writer.filter(|_| !stream.has_notice() && !stream.is_capturing()) {
            writer.unended = writer.unended.saturating_sub(1);
            writer.ended = stream.epoch();
        }
    }

    /// The users, each with the latest epoch that may contain its last use; 0 if that is not known.
    pub(super) fn ends(&self) -> impl Iterator<Item = (&Stream, u64)> {
        let writer = self.writer.iter().map(|writer| (&*writer.stream, writer.end()));
        writer.chain(self.readers.iter().map(|(reader, end)| (&**reader, *end)))
    }

    /// Whether a stream waits for the last write: it made that write, or has read it.
    fn knows(&self, writer: &Stream, stream: &Stream) -> bool {
        let is_same = |other: &Stream| other.queue() == stream.queue();
        is_same(writer) || self.readers.iter().any(|(reader, _)| is_same(reader))
    }

    /// Lets later work of `stream` write the block, whose own stream is `home`, once `order` has made it wait for all uses. If `is_told`, work
    /// of `home` uses the block only with an announcement. Then a stream that wrote the block last waits for nothing.
    pub(super) fn write(
        &mut self,
        home: &Stream,
        stream: &Stream,
        is_told: bool,
        order: impl Fn(&Stream, &Stream, u64) -> Result<()>,
    ) -> Result<()> {
        let is_writer = self.writer_on(stream).is_some();
        if is_told && is_writer && self.readers.is_empty() {
            self.continue_writer(stream);
            return Ok(());
        }
        let users = self.ends().chain([(home, 0)]).filter(|(user, _)| user.queue() != stream.queue());
        users.into_iter().try_for_each(|(user, end)| order(stream, user, end))?;
        self.readers.clear();
        if !is_writer {
            let is_other = stream.queue() != home.queue();
            self.writer = is_other.then(|| LastWriter { stream: User::of(stream), unended: 0, ended: 0 });
        }
        self.continue_writer(stream);
        Ok(())
    }

    /// The streams whose work may still use the block.
    pub(super) fn users(&self) -> impl Iterator<Item = &Stream> {
        self.ends().map(|(user, _)| user)
    }

    /// Notes that the block was dropped. Its next life then waits only for the present work of its users, or for less if their last use is
    /// known. Calls no device.
    pub(super) fn end(&mut self) {
        if let Some(writer) = self.writer.as_mut().filter(|writer| writer.end() == 0) {
            (writer.unended, writer.ended) = (0, writer.stream.epoch());
        }
        self.readers.iter_mut().for_each(|(reader, end)| *end = reader.epoch());
    }

    /// Makes the drop keep the block for a reservation.
    pub(super) fn keep_for(&mut self, reservation: &Stream) {
        if self.reservations.iter().all(|known| known.id() != reservation.id()) {
            self.reservations.push(reservation.clone());
        }
    }

    /// Forgets the users, because the block's own stream waits for them.
    pub(super) fn clear(&mut self) {
        self.writer = None;
        self.readers.clear();
    }
}
