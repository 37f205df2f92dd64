//! Fills with patterns that the driver has no call for.
#![allow(unsafe_code)]

use cudarc::driver::sys;

use super::CudaMemory;
use crate::base::error::Result;
use crate::device::backend::Backend;

/// Bytes of a block that a fill writes.
///
/// Invariant: these are the bytes that [`Backend::fill`] got. Its caller promises that they are allocated and that nothing else touches
/// them before the fill is done. They begin at a multiple of 256, and their number is a multiple of the pattern's length. Only `fill` makes
/// a `Target`.
pub(super) struct Target {
    pub(super) address: u64,
    pub(super) bytes: usize,
}

impl CudaMemory {
    /// Writes each word (or byte) of `pattern` as a column of a matrix whose rows are the pattern. A graph records these fills with their
    /// values.
    pub(super) fn fill_by_rows(&self, target: &Target, pattern: &[u8]) -> Result<()> {
        let (pitch, rows) = (pattern.len(), target.bytes / pattern.len());
        let width = if pitch.is_multiple_of(4) { 4 } else { 1 };
        let columns = || (target.address..).step_by(width).zip(pattern.chunks_exact(width));
        self.call("a fill", |stream| {
            columns().try_for_each(|(column, element)| {
                // SAFETY: the target is `rows` rows of `pitch` bytes. The column is one element of each row, a byte or an aligned word, and
                // begins before the first row ends. The queue lends the handle of a live stream.
                unsafe {
                    match *element {
                        [a, b, c, d] => {
                            sys::cuMemsetD2D32Async(column, pitch, u32::from_ne_bytes([a, b, c, d]), 1, rows, stream)
                        }
                        _ => sys::cuMemsetD2D8Async(column, pitch, element[0], 1, rows, stream),
                    }
                }
                .result()
            })
        })
    }

    /// Writes `pattern` once, then doubles the written part repeatedly, because the driver fills only with patterns of up to 4 bytes.
    pub(super) fn fill_by_doubling(&self, target: &Target, pattern: &[u8]) -> Result<()> {
        let &Target { address, bytes } = target;
        let mut done = pattern.len().min(bytes);
        // SAFETY: `pattern` has `done` readable bytes, and the target has at least `done` bytes. After the write, `[0, done)` of the target
        // is written. `[done, done + more)` lies behind it and within the target, so the two parts of the allocation do not overlap. One
        // stream does its copies in order, so each copy reads bytes that earlier ones wrote.
        unsafe {
            self.write(pattern.as_ptr(), address, done)?;
            while done < bytes {
                let more = done.min(bytes - done);
                self.copy(address, address + done as u64, more)?;
                done += more;
            }
        }
        Ok(())
    }
}
