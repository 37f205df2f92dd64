//! Blocks by their addresses: a table in which each address that a block may have has a place of its own.
//!
//! The first half of an address finds a part of the table, the second one the place in it: two loads, no hash, no lock. A part is reserved
//! when the first address in it is noted, and takes memory only where something was noted: a page of the host for each
//! 128 KiB of the device, where large blocks begin, and so 1/32 of the device's memory at most.
//!
//! Invariant: what stands in the table is a block that was put there, and nobody else has.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

use gpucache_engine::cache::Block;

/// Bits of an address that tell the part of the table: so many bytes of addresses have one.
const PART: u32 = 30;
/// What processes can have of addresses, on the machines that there are: others have no place.
const ADDRESSES: u32 = 48;
const PARTS: usize = 1 << (ADDRESSES - PART);
const PLACES: usize = (1 << PART) / Block::ALIGNMENT as usize;

type Part = [AtomicPtr<()>; PLACES];

static TABLE: [AtomicPtr<Part>; PARTS] = [const { AtomicPtr::new(null_mut()) }; PARTS];

/// Notes a block under its address; hands it out again if that has no place.
pub(super) fn put(block: Block) -> Result<u64, Block> {
    let address = block.address();
    let Some(place) = part_of(address).and_then(made).map(|part| place(part, address)) else {
        return Err(block);
    };
    // Nothing stands there, as no other block that is alive has the same address.
    place.store(block.into_raw().as_ptr(), Release);
    Ok(address)
}

/// Takes a block out of the table, if one begins at this address.
#[inline]
pub(super) fn take(address: u64) -> Option<Block> {
    if !address.is_multiple_of(Block::ALIGNMENT) {
        return None;
    }
    let part = part_of(address)?.load(Acquire);
    // SAFETY: a part lives as long as the process from when it stands in the table, and was zeroed before.
    let part: &'static Part = unsafe { part.as_ref() }?;
    let record = NonNull::new(place(part, address).swap(null_mut(), AcqRel))?;
    // SAFETY: what stands in the table is a block that was put there, and the exchange gave it to this thread alone.
    Some(unsafe { Block::from_raw(record) })
}

#[inline]
fn part_of(address: u64) -> Option<&'static AtomicPtr<Part>> {
    TABLE.get((address >> PART) as usize)
}

#[inline]
fn place(part: &'static Part, address: u64) -> &'static AtomicPtr<()> {
    &part[(address % (1 << PART) / Block::ALIGNMENT) as usize]
}

#[inline]
fn made(part: &'static AtomicPtr<Part>) -> Option<&'static Part> {
    // SAFETY: a part lives as long as the process from when it stands in the table, zeroed, which is a part without blocks.
    unsafe { part.load(Acquire).as_ref() }.or_else(|| make(part))
}

/// Reserves a part of the table. The allocator maps so large a piece, and so has it zeroed page by page when it is written.
#[cold]
fn make(part: &'static AtomicPtr<Part>) -> Option<&'static Part> {
    let layout = Layout::new::<Part>();
    // SAFETY: the layout has a size that is not zero, and zeros are null pointers. A part that another thread was faster with is
    // given back as it was had, and nobody has seen it.
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
