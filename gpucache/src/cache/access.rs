//! What can be done with a block's bytes, on its own stream. Lengths are checked here, so that callers need not.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use super::block::Block;
use crate::base::error::{Error, Result};

impl Block {
    /// Writes `pattern` again and again; its length divides the block's.
    pub(crate) fn fill(&mut self, pattern: &[u8]) -> Result<()> {
        // A pattern that does not divide the block fills what it can, and never more.
        let bytes = self.bytes() - self.bytes().checked_rem(pattern.len()).unwrap_or(0);
        // SAFETY: `bytes` bytes of a block that is borrowed exclusively, a multiple of the pattern's length.
        self.writing(|stream, address| unsafe { stream.fill(address, bytes, pattern) })
    }

    /// Copies `from` to the front of the block, as much of it as there is room.
    pub(crate) fn write(&mut self, from: &[u8]) -> Result<()> {
        let bytes = from.len().min(self.bytes());
        // SAFETY: `bytes` readable bytes, as many in a block that is borrowed exclusively.
        self.writing(|stream, address| unsafe { stream.write(from.as_ptr(), address, bytes) })
    }

    /// Copies the front of the block, as much as there is room for in `to`.
    pub(crate) fn read(&self, to: &mut [MaybeUninit<u8>]) -> Result<()> {
        let bytes = to.len().min(self.bytes());
        // SAFETY: `bytes` bytes of a block, as many writable in `to`.
        self.reading(|| unsafe { self.stream().read(self.address(), to.as_mut_ptr().cast(), bytes) })
    }

    /// Copies another block of the same device and of as many bytes.
    ///
    /// # Errors
    /// [`is_invalid_shape`](Error::is_invalid_shape) for blocks of unequal bytes, of which a copy would leave a part
    /// unwritten; [`is_unavailable`](Error::is_unavailable) for blocks of two devices; a failure of the device.
    pub(crate) fn copy_from(&mut self, other: &Block) -> Result<()> {
        let (from, bytes) = (other.address(), other.bytes());
        if bytes != self.bytes() {
            return Err(Error::invalid_shape(format!(
                "{bytes} bytes cannot be copied to {}: copy between arrays of one size",
                self.bytes()
            )));
        }
        if self.stream().memory_id() != other.stream().memory_id() {
            return Err(Error::unavailable(
                "a copy between two devices",
                "neither reads the other's memory",
                "copy by way of the host",
            ));
        }
        // SAFETY: two blocks in use at the same time are disjoint, and lie in one device's memory with `bytes` bytes each;
        // this one is borrowed exclusively.
        let copy = |stream: &crate::device::Stream, to: u64| unsafe { stream.copy(from, to, bytes) };
        self.writing(|stream, to| other.reading(|| copy(stream, to)))?;
        // Where the work that was to write the other one is not done yet, the copy is lost with it.
        self.set_outcome(other.outcome());
        Ok(())
    }
}
