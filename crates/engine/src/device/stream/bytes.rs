//! The calls of a stream that allocate, free and move bytes. No device is asked for zero bytes.
#![allow(unsafe_code)]

use super::Stream;
use crate::base::error::Result;
use crate::device::exit::process_exits;

impl Stream {
    /// Memory for `bytes`; no device is asked for zero bytes.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64> {
        if bytes == 0 {
            return Ok(0);
        }
        self.meter().allocate(bytes as u64, || self.0.backend.allocate(bytes))
    }

    /// Gives memory back; a failure is kept for the next fallible call.
    ///
    /// # Safety
    /// As for [`Backend::free`](crate::device::Backend::free), or `bytes` is zero.
    pub(crate) unsafe fn release(&self, address: u64, bytes: usize) {
        if bytes == 0 || process_exits() {
            return;
        }
        self.meter().freed(bytes as u64);
        // SAFETY: `bytes` is not zero here, so the caller promises what `free` asks for: that this backend, or another
        // one of the same memory whose work on it is done, allocated it, and that it goes back once.
        if let Err(error) = unsafe { self.0.backend.free(address, bytes) } {
            self.keep(error);
        }
    }

    /// As [`Backend::fill`](crate::device::Backend::fill), and nothing to do for zero bytes.
    ///
    /// # Safety
    /// As for [`Backend::fill`](crate::device::Backend::fill), or `bytes` is zero.
    pub(crate) unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()> {
        // SAFETY: `bytes` is not zero, so the caller promises what `fill` asks for: they are allocated, and nothing
        // else touches them before this is done.
        if bytes == 0 { Ok(()) } else { unsafe { self.0.backend.fill(address, bytes, pattern) } }
    }

    /// As [`Backend::write`](crate::device::Backend::write), and nothing to do for zero bytes.
    ///
    /// # Safety
    /// As for [`Backend::write`](crate::device::Backend::write), or `bytes` is zero.
    pub(crate) unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: `bytes` is not zero, so the caller promises what `write` asks for: they are readable at `from` and
        // allocated at `to`, and nothing else touches either before this is done.
        if bytes == 0 { Ok(()) } else { unsafe { self.0.backend.write(from, to, bytes) } }
    }

    /// As [`Backend::read`](crate::device::Backend::read), and nothing to do for zero bytes.
    ///
    /// # Safety
    /// As for [`Backend::read`](crate::device::Backend::read), or `bytes` is zero.
    pub(crate) unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: `bytes` is not zero, so the caller promises what `read` asks for: they are allocated at `from` and
        // writable at `to`.
        if bytes == 0 { Ok(()) } else { unsafe { self.0.backend.read(from, to, bytes) } }
    }

    /// As [`Backend::copy`](crate::device::Backend::copy), and nothing to do for zero bytes.
    ///
    /// # Safety
    /// As for [`Backend::copy`](crate::device::Backend::copy), or `bytes` is zero.
    pub(crate) unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: `bytes` is not zero, so the caller promises what `copy` asks for: they are allocated at both
        // addresses, do not overlap, and nothing else writes them before this is done.
        if bytes == 0 { Ok(()) } else { unsafe { self.0.backend.copy(from, to, bytes) } }
    }
}
