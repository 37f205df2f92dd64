//! Virtual memory management: reserved addresses, pieces of memory, and which piece is mapped where.
//!
//! A piece is a file in memory. Addresses without a piece cannot be accessed, so a program that touches them faults.

use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use crate::answer::{Answer, Out, Status, answer, lock};
use crate::arena;
use crate::memory::{GARBAGE, when_short};
use crate::table::Table;
use crate::uses;

const GRANULARITY: usize = 2 << 20;

/// A piece of the device's memory. It goes back when this is dropped.
struct Piece {
    file: File,
    bytes: usize,
}

impl Drop for Piece {
    fn drop(&mut self) {
        arena::discharge(self.bytes as u64);
    }
}

struct Pages {
    /// The bytes of each reservation, by address.
    reserved: BTreeMap<u64, usize>,
    /// The mapped pieces, by address. A piece lives as long as its handle or a mapping.
    mapped: BTreeMap<u64, Arc<Piece>>,
    pieces: Table<Piece>,
}

static PAGES: Mutex<Pages> =
    Mutex::new(Pages { reserved: BTreeMap::new(), mapped: BTreeMap::new(), pieces: Table::from(0xA700_0000) });

impl Piece {
    fn new(bytes: usize) -> Answer<Piece> {
        when_short(|| arena::charge(bytes as u64))?;
        let file = Piece::file(bytes).inspect_err(|_| arena::discharge(bytes as u64))?;
        Ok(Piece { file, bytes })
    }

    fn file(bytes: usize) -> Answer<File> {
        // SAFETY: the name is a text that ends with a zero.
        let descriptor = unsafe { libc::memfd_create(c"device memory".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(Status::OUT_OF_MEMORY);
        }
        // SAFETY: the system gave this descriptor just now, and nobody else has it.
        let file = unsafe { File::from_raw_fd(descriptor) };
        let garbage = vec![GARBAGE; GRANULARITY];
        let offsets = (0..bytes).step_by(GRANULARITY);
        let written = offsets.map(|offset| file.write_all_at(&garbage, offset as u64));
        written.collect::<Result<(), _>>().map_err(|_| Status::OUT_OF_MEMORY)?;
        Ok(file)
    }
}

/// Maps a file, or nothing, at reserved addresses. They cannot be accessed yet.
///
/// # Safety
/// The addresses lie within a reservation, and nobody uses the memory that was there.
unsafe fn place(address: u64, bytes: usize, file: Option<&File>) -> Answer {
    let (flags, descriptor) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1),
    };
    let start = address as *mut libc::c_void;
    // SAFETY: the replaced addresses are reserved, so they belong to the process. By this function's contract nobody uses them.
    let placed = unsafe { libc::mmap(start, bytes, libc::PROT_NONE, flags | libc::MAP_FIXED, descriptor, 0) };
    if placed == libc::MAP_FAILED { Err(Status::OUT_OF_MEMORY) } else { Ok(()) }
}

impl Pages {
    fn is_reserved(&self, address: u64, bytes: usize) -> bool {
        let before = self.reserved.range(..=address).next_back();
        before.is_some_and(|(start, length)| address + bytes as u64 <= start + *length as u64)
    }

    fn is_empty(&self, address: u64, bytes: usize) -> bool {
        let before = self.mapped.range(..address + bytes as u64).next_back();
        before.is_none_or(|(start, piece)| start + piece.bytes as u64 <= address)
    }

    /// The pieces that fill these addresses completely, side by side.
    fn pieces_at(&self, address: u64, bytes: usize) -> Answer<Vec<(u64, usize)>> {
        let within = self.mapped.range(address..address + bytes as u64);
        let pieces: Vec<(u64, usize)> = within.map(|(start, piece)| (*start, piece.bytes)).collect();
        let filled: usize = pieces.iter().map(|(_, bytes)| bytes).sum();
        let is_whole = bytes > 0 && filled == bytes && self.is_empty(address, 0);
        if is_whole { Ok(pieces) } else { Err(Status::INVALID_VALUE) }
    }
}

/// The start and the bytes of the piece around an address.
pub(crate) fn around(address: u64) -> Option<(u64, u64)> {
    let pages = lock(&PAGES);
    let (start, piece) = pages.mapped.range(..=address).next_back()?;
    (address - start < piece.bytes as u64).then_some((*start, piece.bytes as u64))
}

fn whole(bytes: usize) -> Answer {
    let is_whole = bytes > 0 && bytes.is_multiple_of(GRANULARITY);
    if is_whole { Ok(()) } else { Err(Status::INVALID_VALUE) }
}

/// # Safety
/// The properties are not read.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemGetAllocationGranularity(
    bytes: Out<usize>,
    _properties: usize,
    _option: c_uint,
) -> Status {
    answer("cuMemGetAllocationGranularity", || bytes.put(GRANULARITY))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAddressReserve(
    address: Out<u64>,
    bytes: usize,
    _alignment: usize,
    _at: u64,
    _flags: u64,
) -> Status {
    answer("cuMemAddressReserve", || {
        whole(bytes)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let more = bytes.checked_add(GRANULARITY).ok_or(Status::OUT_OF_MEMORY)?;
        // SAFETY: this makes a new mapping at addresses that the system chooses. Nobody has them.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), more, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Status::OUT_OF_MEMORY);
        }
        // The addresses in front of the first multiple of the granularity, and behind the last byte, stay unused.
        let start = (start as u64).next_multiple_of(GRANULARITY as u64);
        lock(&PAGES).reserved.insert(start, bytes);
        address.put(start)
    })
}

/// The addresses are not used again, so late work on them faults.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAddressFree(address: u64, bytes: usize) -> Status {
    answer("cuMemAddressFree", || {
        let mut pages = lock(&PAGES);
        if pages.reserved.get(&address) != Some(&bytes) || !pages.is_empty(address, bytes) {
            return Err(Status::INVALID_VALUE);
        }
        pages.reserved.remove(&address);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemCreate(handle: Out<u64>, bytes: usize, _properties: usize, _flags: u64) -> Status {
    answer("cuMemCreate", || {
        whole(bytes)?;
        let piece = Arc::new(Piece::new(bytes)?);
        handle.put(lock(&PAGES).pieces.add(piece) as u64)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemRelease(handle: u64) -> Status {
    answer("cuMemRelease", || lock(&PAGES).pieces.remove(handle as usize).map(drop).ok_or(Status::INVALID_VALUE))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, _flags: u64) -> Status {
    answer("cuMemMap", || {
        let mut pages = lock(&PAGES);
        let piece = pages.pieces.get(handle as usize).ok_or(Status::INVALID_VALUE)?;
        let is_whole = offset == 0 && bytes == piece.bytes && address.is_multiple_of(GRANULARITY as u64);
        if !is_whole || !pages.is_reserved(address, bytes) || !pages.is_empty(address, bytes) {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the addresses are reserved and have no memory, so nobody uses them.
        unsafe { place(address, bytes, Some(&piece.file)) }?;
        pages.mapped.insert(address, piece);
        Ok(())
    })
}

/// The device may read and write, no matter what the description says.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemSetAccess(address: u64, bytes: usize, _description: usize, _count: usize) -> Status {
    answer("cuMemSetAccess", || {
        let pages = lock(&PAGES);
        for (start, bytes) in pages.pieces_at(address, bytes)? {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: a piece is mapped there, which is this file's own memory. The call only adds access.
            if unsafe { libc::mprotect(start as *mut libc::c_void, bytes, access) } != 0 {
                return Err(Status::OUT_OF_MEMORY);
            }
        }
        Ok(())
    })
}

/// Does not unmap memory that work uses; the context is then lost.
///
/// # Safety
/// The memory is used only by work that was given to streams of this driver.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemUnmap(address: u64, bytes: usize) -> Status {
    answer("cuMemUnmap", || {
        let mut pages = lock(&PAGES);
        let pieces = pages.pieces_at(address, bytes)?;
        uses::unused(address, bytes)?;
        for (start, bytes) in pieces {
            // SAFETY: a piece is mapped there, so the addresses are reserved. The caller promises that no other work uses it.
            unsafe { place(start, bytes, None) }?;
            pages.mapped.remove(&start);
        }
        Ok(())
    })
}
