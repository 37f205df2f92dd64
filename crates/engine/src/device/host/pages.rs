//! Pages of the machine's own memory on Linux: addresses reserved without access, made usable as the range grows.
#![allow(unsafe_code)]

use std::io::Error as OsError;
use std::ptr::{null_mut, with_exposed_provenance_mut};

use super::budget;
use crate::base::error::{Error, Result};
use crate::device::{Unfinished, VirtualMemory};

/// The unit of mapping: a multiple of the pages of every Linux (4 to 64 KiB). Small enough that a small program holds
/// little, large enough that mapping, a system call each, is rare.
const HOST_GRANULARITY: u64 = 64 << 10;
/// Addresses to ask for, 16 TiB: more than any machine has memory, and an eighth of what 47 bits give a process.
const MOST_ADDRESSES: u64 = 1 << 44;
/// With no more addresses than this, 1 GiB, a range would be full soon: then memory is taken in chunks instead.
const LEAST_ADDRESSES: u64 = 1 << 30;

#[derive(Debug)]
pub(super) struct HostPages;

// SAFETY: the addresses are this mapping's own, which is never removed; `mprotect` makes them usable, and a fresh
// mapping over them takes the memory away.
unsafe impl VirtualMemory for HostPages {
    fn granularity(&self) -> u64 {
        HOST_GRANULARITY
    }

    fn reserve(&self) -> Result<(u64, u64)> {
        // A process may be limited in addresses: what is had is the largest power of two that the system grants.
        let sizes = std::iter::successors(Some(MOST_ADDRESSES), |bytes| Some(bytes / 2));
        let sizes = sizes.take_while(|&bytes| bytes > LEAST_ADDRESSES);
        for bytes in sizes {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: the system puts a new mapping without access where nothing is, so that no memory of the process
            // changes.
            let address = unsafe { libc::mmap(null_mut(), bytes as usize, libc::PROT_NONE, flags, -1, 0) };
            if address != libc::MAP_FAILED {
                return Ok((address.expose_provenance() as u64, bytes));
            }
        }
        Err(failure(0, "reserving addresses"))
    }

    // The system knows pages and no pieces: one call does for a whole stretch, and all of it counts as mapped or none.
    fn map_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let (bytes, access) = (pieces.iter().sum(), libc::PROT_READ | libc::PROT_WRITE);
        let mapped = budget::take(bytes).and_then(|()| {
            // SAFETY: the pages lie within the mapping that `reserve` made, as callers have it. Access is only added,
            // to pages that nobody uses yet.
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
        // SAFETY: the pages lie within the mapping that `reserve` made, and the caller promises that no work uses them
        // any more, so that nothing is lost with them. The new mapping in their place keeps the addresses reserved.
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
