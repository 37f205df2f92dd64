//! Memory of the process in pages, and only a limited number of them: a small device with real contents, for threads that run out
//! of memory at once.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::fmt;
use std::ptr::{copy_nonoverlapping, from_ref, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, PoisonError};

use gpucache::device::{
    Device,
    backend::{Backend, Memory, Stream, VirtualMemory},
};
use gpucache::{Error, Result};

use crate::faulty::Failure;
use crate::sync::Mutex;

/// The unit of mapping.
pub const PAGE: u64 = 64 << 10;
/// Addresses for each page of the limit. No program scatters its arrays over more.
const ADDRESSES: u64 = 64;

/// A handle of a device with a limited number of pages. Its work is done when a call returns.
#[derive(Clone)]
#[repr(transparent)]
pub struct Paged(Stream);

#[derive(Debug)]
struct Pages {
    limit: u64,
    mapped: AtomicU64,
    captures: AtomicBool,
    fault: Mutex<Option<PageFault>>,
}

/// The calls for pages that have to fail.
#[derive(Clone, Copy, Debug)]
pub struct PageFault {
    /// Whether calls that unmap fail, instead of those that map.
    pub unmaps: bool,
    /// The number of the first call to fail, counted from 1 and from now.
    pub at: u64,
    /// Whether all later calls fail too.
    pub for_ever: bool,
    /// How they fail.
    pub failure: Failure,
}

#[derive(Debug)]
struct SharedPages(Arc<Pages>);

#[derive(Debug)]
struct Contents(Arc<Pages>);

impl Paged {
    /// A new device that is out of memory beyond `pages` pages. Its addresses are never given back.
    pub fn new(pages: u64) -> Paged {
        let pages = Arc::new(Pages {
            limit: pages * PAGE,
            mapped: AtomicU64::new(0),
            captures: AtomicBool::new(false),
            fault: Mutex::new(None),
        });
        let memory = Memory::with_pages(SharedPages(pages.clone()));
        // SAFETY: both are memory of this process.
        Paged(unsafe { Stream::new(memory.into(), Contents(pages)) })
    }

    /// Says from now on whether a graph is captured on the stream.
    pub fn set_capturing(&self, captures: bool) {
        let Contents(pages) = self.0.backend().expect("a Paged is made around Contents");
        pages.captures.store(captures, SeqCst);
    }

    /// Makes calls fail from now on, or stops that.
    pub fn arm(&self, fault: Option<PageFault>) {
        let Contents(pages) = self.0.backend().expect("a Paged is made around Contents");
        *pages.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}

// SAFETY: a transparent struct around a `Stream`, which both methods return unchanged.
unsafe impl Device for Paged {
    fn stream_handle(&self) -> &Stream {
        &self.0
    }

    unsafe fn from_stream_handle(stream: &Stream) -> &Paged {
        // SAFETY: `Paged` is a transparent struct around a `Stream`, and the caller's stream belongs to a `Paged`.
        unsafe { &*from_ref(stream).cast() }
    }
}

impl fmt::Debug for Paged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("paged")
    }
}

impl Pages {
    /// Counts a call, and fails if a fault says so.
    fn call(&self, unmaps: bool, bytes: u64) -> Result<()> {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(fault) = fault.as_mut().filter(|fault| fault.unmaps == unmaps) else { return Ok(()) };
        let fails = fault.at == 1 || (fault.at == 0 && fault.for_ever);
        fault.at = fault.at.saturating_sub(1);
        match fault.failure {
            _ if !fails => Ok(()),
            Failure::Device => Err(Error::device_failure("the paged device", "a call for pages", "as the test asked")),
            Failure::OutOfMemory => Err(Error::out_of_memory("the paged device", bytes as usize, "as the test asked")),
        }
    }
}

// SAFETY: the addresses are an allocation that is never freed. All of it is readable and writable all the time.
unsafe impl VirtualMemory for SharedPages {
    fn granularity(&self) -> u64 {
        PAGE
    }

    fn reserve(&self) -> Result<(u64, u64)> {
        let bytes = ADDRESSES * self.0.limit;
        let layout = Layout::from_size_align(bytes as usize, PAGE as usize)
            .map_err(|error| Error::out_of_memory("the test", bytes as usize, error))?;
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc_zeroed(layout) };
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        Ok((memory.expose_provenance() as u64, bytes))
    }

    fn map(&self, _address: u64, bytes: u64) -> Result<()> {
        self.0.call(false, bytes)?;
        let take = |mapped: u64| Some(mapped + bytes).filter(|&mapped| mapped <= self.0.limit);
        match self.0.mapped.fetch_update(SeqCst, SeqCst, take) {
            Ok(_) => Ok(()),
            Err(mapped) => Err(Error::out_of_memory(
                "the paged device",
                bytes as usize,
                format_args!("{mapped} of {} bytes are mapped", self.0.limit),
            )),
        }
    }

    unsafe fn unmap(&self, _address: u64, bytes: u64) -> Result<()> {
        self.0.call(true, bytes)?;
        self.0.mapped.fetch_sub(bytes, SeqCst);
        Ok(())
    }
}

// SAFETY: the pages are the only memory.
unsafe impl Backend for Contents {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        Err(Error::out_of_memory("the paged device", bytes, "it has pages alone"))
    }

    unsafe fn free(&self, _address: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }

    unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()> {
        if let [byte] = *pattern {
            // SAFETY: the caller gives `bytes` at `address`.
            unsafe { pointer(address).write_bytes(byte, bytes) };
            return Ok(());
        }
        // SAFETY: the caller gives `bytes` at `address`, a multiple of the pattern's length.
        (0..bytes / pattern.len()).for_each(|place| unsafe {
            pointer(address).add(place * pattern.len()).copy_from_nonoverlapping(pattern.as_ptr(), pattern.len());
        });
        Ok(())
    }

    unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller gives readable memory at `from` and a block at `to`.
        unsafe { copy_nonoverlapping(from, pointer(to), bytes) };
        Ok(())
    }

    unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller gives a block at `from` and writable memory at `to`.
        unsafe { copy_nonoverlapping(with_exposed_provenance(from as usize), to, bytes) };
        Ok(())
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: the caller gives two blocks that do not overlap.
        unsafe { copy_nonoverlapping(with_exposed_provenance::<u8>(from as usize), pointer(to), bytes) };
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn is_capturing(&self) -> bool {
        self.0.captures.load(SeqCst)
    }
}

/// The pointer of a block, whose provenance `reserve` exposed.
fn pointer(address: u64) -> *mut u8 {
    with_exposed_provenance_mut(address as usize)
}
