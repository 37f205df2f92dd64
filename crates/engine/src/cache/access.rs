//! What a block is, and what can be done with its bytes on its own stream. Lengths are checked here, so that callers need not.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use super::block::Block;
use super::current;
use crate::base::error::{Error, Result};
use crate::device::{ALIGNMENT, Lane, Span, Stream};
use crate::record::{Fence, Request};

impl Block {
    /// Every block begins at a multiple of this many bytes.
    pub const ALIGNMENT: u64 = ALIGNMENT;

    /// An error that an allocation met, with what was asked for, and the innermost scope.
    pub fn refused(error: Error, request: &Request<'_>) -> Error {
        current::refused(error, request)
    }

    /// Where it lies on its device.
    #[inline]
    pub fn address(&self) -> u64 {
        self.0.address
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// The dimensions of the request, outermost first.
    pub fn dims(&self) -> &[usize] {
        self.0.shape.dims()
    }

    /// The stream that it is allocated and freed on.
    pub fn stream(&self) -> &Stream {
        self.0.stream()
    }

    /// Writes `pattern` again and again; its length divides the block's.
    pub fn fill(&mut self, pattern: &[u8]) -> Result<()> {
        // A pattern that does not divide the block fills what it can, and never more.
        let bytes = self.bytes() - self.bytes().checked_rem(pattern.len()).unwrap_or(0);
        // SAFETY: `bytes` bytes of a block that is borrowed exclusively, a multiple of the pattern's length.
        self.writing(|stream, address| unsafe { stream.fill(address, bytes, pattern) })
    }

    /// Copies `from` to the front of the block, as much of it as there is room.
    pub fn write(&mut self, from: &[u8]) -> Result<()> {
        let bytes = from.len().min(self.bytes());
        // SAFETY: `bytes` readable bytes, as many in a block that is borrowed exclusively.
        self.writing(|stream, address| unsafe { stream.write(from.as_ptr(), address, bytes) })
    }

    /// Copies the front of the block, as much as there is room for in `to`.
    pub fn read(&self, to: &mut [MaybeUninit<u8>]) -> Result<()> {
        let bytes = to.len().min(self.bytes());
        // SAFETY: `bytes` bytes of a block, as many writable in `to`.
        self.reading(|| unsafe { self.stream().read(self.address(), to.as_mut_ptr().cast(), bytes) })
    }

    /// Copies another block of the same device and of as many bytes.
    ///
    /// # Errors
    /// [`is_invalid_shape`](Error::is_invalid_shape) for blocks of unequal bytes, of which a copy would leave a part
    /// unwritten; [`is_unavailable`](Error::is_unavailable) for blocks of two devices; a failure of the device.
    pub fn copy_from(&mut self, other: &Block) -> Result<()> {
        let from = CopySource::of(other, self)?;
        if self.stream().memory_id() != other.stream().memory_id() {
            return Err(Error::unavailable(
                "a copy between two devices",
                "neither reads the other's memory",
                "copy by way of the host",
            ));
        }
        self.writing(|stream, to| other.reading(|| from.copy(stream, to)))?;
        // Where the work that was to write the other one is not done yet, the copy is lost with it.
        self.set_outcome(other.outcome());
        Ok(())
    }

    /// Copies a block on the other side of a lane, of as many bytes, on the lane's queue: behind all that is on both blocks' streams
    /// now, and before what is put there later. The answer is where on the queue it ends, for each side, and how long it takes if it is
    /// to be timed.
    ///
    /// # Errors
    /// [`is_invalid_shape`](Error::is_invalid_shape) for blocks of unequal bytes; [`is_unavailable`](Error::is_unavailable) for
    /// blocks that are not of the lane's two memories, and while a graph is captured; a failure of the device.
    pub fn copy_over(&mut self, lane: &Lane, other: &Block, is_timed: bool) -> Result<Crossing> {
        let from = CopySource::of(other, self)?;
        other.read_on(lane.side_of(other.stream())?)?;
        self.write_on(lane.side_of(self.stream())?)?;
        // Only the copy: what the lane waits for before it is no part of that.
        let copy = || from.copy(&lane.device, self.address());
        let (copied, span) = if is_timed { Span::around(&lane.device, copy) } else { (copy(), None) };
        copied?;
        self.set_outcome(other.outcome());
        if self.stream().queue() == lane.device.queue() {
            self.note_write();
        }
        // One for each side, since what the two memories know of the queue is apart.
        let host = Fence::sealed(&lane.host);
        Ok(Crossing { host, device: Fence::sealed(&lane.device), span })
    }
}

/// A copy from one side of a lane to the other that was put on its queue: where that ends, as each of the two memories knows it.
pub struct Crossing {
    /// For the side of the host.
    pub host: Fence,
    /// For the side of the device.
    pub device: Fence,
    /// How long it takes, if that is measured.
    pub span: Option<Span>,
}

/// What is copied to a block.
///
/// Invariant: `bytes` at `from` are those of a block in use, and as many as the block has that they are copied to, which is another
/// one in use, and so disjoint. It is made by [`CopySource::of`] alone, and used before either block is given back.
struct CopySource {
    from: u64,
    bytes: usize,
}

impl CopySource {
    fn of(from: &Block, to: &Block) -> Result<CopySource> {
        let (bytes, room) = (from.bytes(), to.bytes());
        match bytes == room {
            true => Ok(CopySource { from: from.address(), bytes }),
            false => Err(Error::invalid_shape(format!(
                "{bytes} bytes cannot be copied to {room}: copy between arrays of one size"
            ))),
        }
    }

    /// Puts the copy to the block at `to` on a stream that works on both blocks' memory, and that both are announced to.
    fn copy(&self, stream: &Stream, to: u64) -> Result<()> {
        // SAFETY: this is what the invariant says; the block that is written is borrowed exclusively by both callers. The stream is
        // one of its device, or of a lane between the two memories, which is checked by both.
        unsafe { stream.copy(self.from, to, self.bytes) }
    }
}
