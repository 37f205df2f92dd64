//! The properties of a block, and the operations on its bytes on its own stream. The lengths are checked here, not by callers.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use super::block::Block;
use super::current;
use crate::base::error::{Error, Result};
use crate::device::{ALIGNMENT, CopyStream, Span, Stream};
use crate::record::{Fence, Request};

impl Block {
    /// Every block begins at a multiple of this many bytes.
    pub const ALIGNMENT: u64 = ALIGNMENT;

    /// Adds the request and the innermost scope to an error that an allocation met.
    pub fn refused(error: Error, request: &Request<'_>) -> Error {
        current::refused(error, request)
    }

    /// The block's address on its device.
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

    /// The stream that allocates and frees the block.
    pub fn stream(&self) -> &Stream {
        self.0.stream()
    }

    /// Fills the block with repetitions of `pattern`, whose length divides the block's.
    pub fn fill(&mut self, pattern: &[u8]) -> Result<()> {
        // If the length does not divide the block's, the rest stays unwritten. Most lengths are powers of two, and need no division.
        let rest = match pattern.len() {
            length if length.is_power_of_two() => self.bytes() & (length - 1),
            length => self.bytes().checked_rem(length).unwrap_or(0),
        };
        let bytes = self.bytes() - rest;
        // SAFETY: the block has at least `bytes` bytes and is borrowed exclusively. `bytes` is a multiple of the pattern's length.
        self.writing(|stream, address| unsafe { stream.fill(address, bytes, pattern) })
    }

    /// Copies `from` to the front of the block, as far as it fits.
    pub fn write(&mut self, from: &[u8]) -> Result<()> {
        let bytes = from.len().min(self.bytes());
        // SAFETY: `from` has `bytes` readable bytes. The block has at least as many and is borrowed exclusively.
        self.writing(|stream, address| unsafe { stream.write(from.as_ptr(), address, bytes) })
    }

    /// Copies the front of the block to `to`, as far as it fits.
    pub fn read(&self, to: &mut [MaybeUninit<u8>]) -> Result<()> {
        let bytes = to.len().min(self.bytes());
        // SAFETY: the block has at least `bytes` bytes, and `to` has at least as many writable bytes.
        self.reading(|| unsafe { self.stream().read(self.address(), to.as_mut_ptr().cast(), bytes) })
    }

    /// Copies another block of the same device and size, on this block's stream.
    ///
    /// # Errors
    /// [`is_invalid_shape`](Error::is_invalid_shape) for blocks of unequal size, since a part would stay unwritten;
    /// [`is_unavailable`](Error::is_unavailable) for blocks of two devices; a failure of the device.
    pub fn copy_from(&mut self, other: &Block) -> Result<()> {
        let copy = copy_of(other, self)?;
        if self.stream().memory_id() != other.stream().memory_id() {
            return Err(Error::unavailable(
                "an array of another device",
                "neither reads the other's memory",
                "copy by way of the host",
            ));
        }
        other.read_on(self.stream())?;
        // Work that has failed already leaves this block as it is. If the work that should write `other` fails later, this copy is as wrong.
        other.check_outcome()?;
        self.writing(|stream, to| copy(stream, to))?;
        self.set_outcome(other.outcome());
        other.check_outcome()
    }

    /// Copies a block of another device and of the same size, if the two devices have a queue for that. The copy runs on this queue: behind
    /// all work that is on both blocks' streams now, and before all work that they get later. Returns whether there is such a queue.
    ///
    /// # Errors
    /// As for [`copy_over`](Block::copy_over).
    #[cfg(feature = "cuda")]
    pub fn copy_across(&mut self, other: &Block) -> Result<bool> {
        let Some(queue) = CopyStream::between(other.stream(), self.stream())? else { return Ok(false) };
        self.copy_over(&queue, other, false)?;
        Ok(true)
    }

    /// Copies a block from the other side of a copy stream (a [`CopyStream`]) to this block of the same size. The copy runs on the copy
    /// stream's queue: behind all work that is on both blocks' streams now, and before all work that they get later. Returns the points on
    /// the queue where the copy ends, for the device's side and the host's, and its duration if `is_timed`.
    ///
    /// # Errors
    /// [`is_invalid_shape`](Error::is_invalid_shape) for blocks of unequal size; [`is_unavailable`](Error::is_unavailable) for
    /// blocks whose memory is not one of the copy stream's two, and while a graph is captured; a failure of the device.
    pub fn copy_over(
        &mut self,
        copy_stream: &CopyStream,
        other: &Block,
        is_timed: bool,
    ) -> Result<(Fence, Fence, Option<Span>)> {
        let copy = copy_of(other, self)?;
        other.read_on(copy_stream.side_of(other.stream())?)?;
        self.write_on(copy_stream.side_of(self.stream())?)?;
        // Times only the copy, and not the waits of the copy stream before it.
        let copy = || copy(&copy_stream.device, self.address());
        let (copied, span) = if is_timed { Span::around(&copy_stream.device, copy) } else { (copy(), None) };
        copied.inspect_err(|_| copy_stream.note_failure())?;
        self.set_outcome(other.outcome());
        if self.stream().queue() == copy_stream.device.queue() {
            self.note_write();
        }
        // One fence for each side, since each of the two memories keeps its own record of the queue.
        let host = Fence::sealed(&copy_stream.host);
        Ok((Fence::sealed(&copy_stream.device), host, span))
    }
}

/// The copy of a block to another one of the same size, to be put on a stream that works on both blocks' memory. Both blocks know of the
/// stream.
///
/// Invariant: the copy is made before either block is given back, with the address of the target, which the caller borrows exclusively.
fn copy_of(from: &Block, to: &Block) -> Result<impl Fn(&Stream, u64) -> Result<()> + use<>> {
    let (address, bytes, room) = (from.address(), from.bytes(), to.bytes());
    if bytes != room {
        return Err(Error::invalid_shape(format!(
            "an array of {bytes} bytes cannot be copied to one of {room} bytes: copy between arrays of equal size"
        )));
    }
    // SAFETY: by the invariant, both sides are blocks in use, so they are valid for `bytes` bytes and disjoint. Both callers check that the
    // stream is one of the blocks' device, or one of a copy stream between the two memories.
    Ok(move |stream: &Stream, to| unsafe { stream.copy(address, to, bytes) })
}
