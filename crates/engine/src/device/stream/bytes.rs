//! The calls of a stream that allocate, free and move bytes. For zero bytes, no device is called.
#![allow(unsafe_code)]

use super::Stream;
use super::capture::{Operation, Word};
use crate::base::error::Result;
use crate::device::exit::process_exits;

impl Stream {
    /// Allocates `bytes`. For zero bytes, no device is called.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64> {
        if bytes == 0 {
            return Ok(0);
        }
        self.meter().allocate(bytes as u64, || self.0.backend.allocate(bytes))
    }

    /// Frees memory. A failure is kept for the next fallible call.
    ///
    /// # Safety
    /// As for [`Backend::free`](crate::device::Backend::free), or `bytes` is zero.
    pub(crate) unsafe fn release(&self, address: u64, bytes: usize) {
        if bytes == 0 || process_exits() {
            return;
        }
        // SAFETY: `bytes` is not zero here, so the caller promises what `free` requires: this backend allocated the memory, or another
        // backend of the same memory did whose work on it is done, and the memory is freed once.
        let freed = unsafe { self.0.backend.free(address, bytes) };
        // Counted last, when others can have the memory: who lacked it then tries again.
        self.meter().freed(bytes as u64);
        freed.unwrap_or_else(|error| self.keep(error));
    }

    /// Calls [`Backend::fill`](crate::device::Backend::fill). For zero bytes it does nothing.
    ///
    /// # Safety
    /// As for [`Backend::fill`](crate::device::Backend::fill), or `bytes` is zero.
    pub(crate) unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()> {
        self.check_thread()?;
        // SAFETY: `bytes` is not zero, so the caller promises what `fill` requires: the bytes are allocated, and nothing else touches them
        // before this is done.
        if bytes == 0 { Ok(()) } else { unsafe { self.0.backend.fill(address, bytes, pattern) } }?;
        self.note_done(|| (vec![Word::address(address, bytes, true)], Operation::Fill(pattern.to_vec())))
    }

    /// Calls [`Backend::write`](crate::device::Backend::write). For zero bytes it does nothing.
    ///
    /// # Safety
    /// As for [`Backend::write`](crate::device::Backend::write), or `bytes` is zero.
    pub(crate) unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        self.check_thread()?;
        self.note_gap("a copy from the host");
        // SAFETY: `bytes` is not zero, so the caller promises what `write` requires: the bytes are readable at `from` and allocated at
        // `to`, and nothing else touches either before this is done.
        if bytes == 0 { Ok(()) } else { unsafe { self.0.backend.write(from, to, bytes) } }?;
        self.check_thread()
    }

    /// Calls [`Backend::read`](crate::device::Backend::read). For zero bytes it does nothing.
    ///
    /// # Safety
    /// As for [`Backend::read`](crate::device::Backend::read), or `bytes` is zero.
    pub(crate) unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        self.check_thread()?;
        self.note_gap("a copy to the host");
        // SAFETY: `bytes` is not zero, so the caller promises what `read` requires: the bytes are allocated at `from` and writable at `to`.
        if bytes == 0 { Ok(()) } else { unsafe { self.0.backend.read(from, to, bytes) } }
    }

    /// Calls [`Backend::copy`](crate::device::Backend::copy). For zero bytes it does nothing.
    ///
    /// # Safety
    /// As for [`Backend::copy`](crate::device::Backend::copy), or `bytes` is zero.
    pub(crate) unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        self.check_thread()?;
        // SAFETY: `bytes` is not zero, so the caller promises what `copy` requires: the bytes are allocated at both addresses, do not
        // overlap, and nothing else writes them before this is done.
        if bytes == 0 { Ok(()) } else { unsafe { self.0.backend.copy(from, to, bytes) } }?;
        let words = || vec![Word::address(from, bytes, false), Word::address(to, bytes, true)];
        self.note_done(|| (words(), Operation::Copy))
    }
}
