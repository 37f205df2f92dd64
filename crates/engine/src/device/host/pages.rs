//! Pages of this machine's memory on Linux. Addresses are reserved without access, and become usable as the range grows.
#![allow(unsafe_code)]

use std::io::Error as OsError;
use std::ptr::{null_mut, with_exposed_provenance_mut};

use super::budget;
use crate::base::error::{Error, Result};
use crate::device::{Unfinished, VirtualMemory};

/// The unit of mapping, a multiple of the page size of every Linux (4 to 64 KiB). It is small enough that a small program reserves little,
/// and large enough that mapping, which costs a system call each time, is rare.
const HOST_GRANULARITY: u64 = 64 << 10;
/// The addresses to request: 16 TiB. That is more than the memory of any machine, and an eighth of the 47-bit addresses of a process.
const MOST_ADDRESSES: u64 = 1 << 44;
/// With this many addresses (1 GiB) or fewer, a range would soon be full. Memory is then taken in chunks instead.
const LEAST_ADDRESSES: u64 = 1 << 30;

#[derive(Debug)]
pub(super) struct HostPages;

// SAFETY: the addresses belong to this mapping, which is never removed. `mprotect` makes them usable, and a fresh mapping over them takes
// the memory away.
unsafe impl VirtualMemory for HostPages {
    fn granularity(&self) -> u64 {
        HOST_GRANULARITY
    }

    fn reserve(&self) -> Result<(u64, u64)> {
        // The addresses of a process may be limited. This takes the largest power of two that the system grants.
        let sizes = std::iter::successors(Some(MOST_ADDRESSES), |bytes| Some(bytes / 2));
        let sizes = sizes.take_while(|&bytes| bytes > LEAST_ADDRESSES);
        for bytes in sizes {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: the system places a new mapping without access where nothing is mapped, so no memory of the process changes.
            let address = unsafe { libc::mmap(null_mut(), bytes as usize, libc::PROT_NONE, flags, -1, 0) };
            if address != libc::MAP_FAILED {
                return Ok((address.expose_provenance() as u64, bytes));
            }
        }
        Err(failure(0, "reserving addresses"))
    }

    // The system knows pages and no pieces. One call maps the whole stretch, and either all of it counts as mapped or none.
    fn map_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let (bytes, access) = (pieces.iter().sum(), libc::PROT_READ | libc::PROT_WRITE);
        let mapped = budget::take(bytes).and_then(|()| {
            // SAFETY: callers pass pages within the mapping that `reserve` made. The call only adds access, to pages that nobody uses yet.
            match unsafe { libc::mprotect(pointer(address), bytes as usize, access) } {
                0 => Ok(()),
                _ => {
                    let error = failure(bytes, "mapping pages");
                    budget::give_back(bytes);
                    Err(error)
                }
            }
        });
        mapped.map_err(|error| Unfinished { mapped: 0, error })
    }

    unsafe fn unmap_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let bytes = pieces.iter().sum();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: the pages lie within the mapping that `reserve` made. The caller promises that no work uses them any more, so nothing is
        // lost with them. The new mapping in their place keeps the addresses reserved.
        match unsafe { libc::mmap(pointer(address), bytes as usize, libc::PROT_NONE, flags, -1, 0) } {
            libc::MAP_FAILED => Err(Unfinished { mapped: pieces.len(), error: failure(bytes, "unmapping pages") }),
            _ => {
                budget::give_back(bytes);
                Ok(())
            }
        }
    }
}

fn pointer(address: u64) -> *mut libc::c_void {
    with_exposed_provenance_mut(address as usize)
}

fn failure(bytes: u64, operation: &'static str) -> Error {
    let error = OsError::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOMEM) => Error::out_of_memory("the host", bytes as usize, error),
        _ => Error::device_failure("the host", operation, error),
    }
}
