//! Finds blocks by their addresses: a table with a place for each address at which a block may begin.
//!
//! The upper bits of an address select a part of the table, the lower ones a place in that part: two loads, no hash, no lock. A part is
//! reserved when the first address in it is noted. It takes host memory only for pages that are written: one page for each
//! 128 KiB of the device in which large blocks begin, so at most 1/32 of the device's memory.
//!
//! A front end whose clients know addresses alone keeps its blocks here, and finds a block again when its address is freed.
//!
//! Invariant: each entry of the table is a block that was put there, and nobody else has that block.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::mem::ManuallyDrop;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use super::Block;
use crate::record::Record;

/// The lowest bit of an address that selects the part of the table. A part covers 2^30 bytes of addresses.
const PART: u32 = 30;
/// Bits of the addresses that a process can use on current machines. Larger addresses have no place.
const ADDRESSES: u32 = 48;
const PARTS: usize = 1 << (ADDRESSES - PART);
const PLACES: usize = (1 << PART) / Block::ALIGNMENT as usize;

/// Stands at the place of a block that a thread is using. No record has this address, since records are aligned.
const IN_USE: *mut Record = std::ptr::without_provenance_mut(1);

type Part = [AtomicPtr<Record>; PLACES];

static TABLE: [AtomicPtr<Part>; PARTS] = [const { AtomicPtr::new(null_mut()) }; PARTS];

/// Blocks by their addresses, for front ends whose clients know nothing else.
impl Block {
    /// Puts the block into the table, and returns its address. Returns the block if its address has no place, or another block has it.
    pub fn keep_by_address(self) -> Result<u64, Block> {
        let address = self.address();
        let Some(place) = part_of(address).and_then(made).map(|part| place(part, address)) else {
            return Err(self);
        };
        // Blocks without bytes, and those of devices that simulate memory, may have the address of another live block.
        if !place.load(Relaxed).is_null() {
            return Err(self);
        }
        place.store(Box::into_raw(self.into_record()), Release);
        Ok(address)
    }

    /// Takes the block that begins at this address out of the table, if there is one.
    #[inline]
    pub fn take_at(address: u64) -> Option<Block> {
        if !address.is_multiple_of(Block::ALIGNMENT) {
            return None;
        }
        let part = part_of(address)?.load(Acquire);
        // SAFETY: once a part is in the table it lives as long as the process, and it was zeroed before.
        let part: &'static Part = unsafe { part.as_ref() }?;
        let record = take_from(place(part, address), null_mut())?;
        // SAFETY: each entry of the table is the box of a block that was put there, and the exchange gave it to this thread alone.
        Some(Block::of(unsafe { Box::from_raw(record.as_ptr()) }))
    }

    /// Runs `act` on the block that begins at this address, if there is one. Other threads that ask for the block wait meanwhile, so `act` is
    /// short, and does not panic.
    pub fn with_at<R>(address: u64, act: impl FnOnce(&Block) -> R) -> Option<R> {
        if !address.is_multiple_of(Block::ALIGNMENT) {
            return None;
        }
        let place = place(made(part_of(address)?)?, address);
        let record = take_from(place, IN_USE)?;
        // SAFETY: as in `take_at`. The block is not dropped, and its box goes back to its place below.
        let block = ManuallyDrop::new(Block::of(unsafe { Box::from_raw(record.as_ptr()) }));
        let answer = act(&block);
        place.store(record.as_ptr(), Release);
        Some(answer)
    }

    /// The address and the bytes of the block in which this address lies, if there is one. It looks at all places before the address, down to
    /// the nearest block.
    pub fn around(address: u64) -> Option<(u64, usize)> {
        let mut at = address - address % Block::ALIGNMENT;
        loop {
            match part_of(at)?.load(Acquire).is_null() {
                true => at -= at % (1 << PART),
                false => {
                    if let Some(bytes) = Block::with_at(at, Block::bytes) {
                        return (address - at < bytes as u64).then_some((at, bytes));
                    }
                }
            }
            at = at.checked_sub(Block::ALIGNMENT)?;
        }
    }
}

/// Exchanges the record at a place for another value. Waits while another thread has the record in use. `None` if there is no record.
#[inline]
fn take_from(place: &AtomicPtr<Record>, other: *mut Record) -> Option<NonNull<Record>> {
    loop {
        let found = place.load(Acquire);
        if found != IN_USE {
            let record = NonNull::new(found)?;
            if place.compare_exchange(found, other, AcqRel, Acquire).is_ok() {
                return Some(record);
            }
        }
        std::hint::spin_loop();
    }
}

#[inline]
fn part_of(address: u64) -> Option<&'static AtomicPtr<Part>> {
    TABLE.get((address >> PART) as usize)
}

#[inline]
fn place(part: &'static Part, address: u64) -> &'static AtomicPtr<Record> {
    &part[(address % (1 << PART) / Block::ALIGNMENT) as usize]
}

#[inline]
fn made(part: &'static AtomicPtr<Part>) -> Option<&'static Part> {
    // SAFETY: once a part is in the table it lives as long as the process. It was zeroed, which is a part without blocks.
    unsafe { part.load(Acquire).as_ref() }.or_else(|| make(part))
}

/// Reserves a part of the table. The allocator maps such a large piece, so the system zeroes each page when it is first written.
#[cold]
fn make(part: &'static AtomicPtr<Part>) -> Option<&'static Part> {
    let layout = Layout::new::<Part>();
    // SAFETY: the layout's size is not zero, and zeros are null pointers. If another thread was faster, the new part is freed
    // with the layout that it was allocated with, and nobody has seen it.
    unsafe {
        let new: *mut Part = alloc_zeroed(layout).cast();
        match part.compare_exchange(null_mut(), new, AcqRel, Acquire) {
            Ok(_) => new.as_ref(),
            Err(known) => {
                if !new.is_null() {
                    dealloc(new.cast(), layout);
                }
                known.as_ref()
            }
        }
    }
}
