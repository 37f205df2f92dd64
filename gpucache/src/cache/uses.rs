//! Uses of a block by streams that are not its own: who is behind whom, and for whom its memory's next life waits.
//!
//! Work that is put on a stream is not seen, so that a use lasts from when it was announced until the block is dropped,
//! which calls no device. Invariants: every stream in `readers` is behind `writer`, or behind the block's own stream
//! where there is none; `writer` is behind all that used the block before.

use crate::base::error::Result;
use crate::device::Stream;

/// What other streams do with a block in this life.
#[derive(Default)]
pub(super) struct Uses {
    /// Whose work wrote the block last, if that is not its own stream.
    writer: Option<Stream>,
    /// Who reads what was written last.
    readers: Vec<Stream>,
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
        let is_known = writer.id() == stream.id() || self.readers.iter().any(|reader| reader.id() == stream.id());
        if is_bare && stream.id() != home.id() && (is_known || writer.id() != home.id()) {
            order(stream, home)?;
        }
        if is_known {
            return Ok(());
        }
        order(stream, writer)?;
        self.readers.push(stream.clone());
        Ok(())
    }

    /// Lets later work of `stream` write the block, which is on `home`, once `order` has put it behind all uses.
    pub(super) fn write(
        &mut self,
        home: &Stream,
        stream: &Stream,
        order: impl Fn(&Stream, &Stream) -> Result<()>,
    ) -> Result<()> {
        let users = self.users().chain([home]).filter(|user| user.id() != stream.id());
        users.into_iter().try_for_each(|user| order(stream, user))?;
        self.readers.clear();
        self.writer = (stream.id() != home.id()).then(|| stream.clone());
        Ok(())
    }

    /// The streams whose work may still use the block.
    pub(super) fn users(&self) -> impl Iterator<Item = &Stream> {
        self.writer.iter().chain(&self.readers)
    }

    /// Forgets them: the block's own stream is behind them.
    pub(super) fn clear(&mut self) {
        self.writer = None;
        self.readers.clear();
    }
}
