//! Finds blocks by their addresses: two tables with a place for each address at which a block may begin. Two loads, no hash, no lock.
//!
//! - `LARGE` has a place for each window of 16 KiB, since only one block of so many bytes begins there. The place says where.
//! - `SMALL` has a place for each unit of 256 bytes, for smaller blocks.
//!
//! The upper bits of an address select a part of the table, the lower ones a place in that part. A part is reserved when the first address in
//! it is noted. It takes host memory only for pages that are written: one page for each 8 MiB of the device in which large blocks begin,
//! and one for each 128 KiB in which small ones do. Without `LARGE`, the steps of T5, whose sizes change, wrote so many new pages that an
//! allocation of PyTorch took 1.69 instead of 1.13 us, and the process 92 MB more of the host (H200).
//!
//! A front end whose clients know addresses alone keeps its blocks here, and finds a block again when its address is freed.
//!
//! Invariant: each entry of the tables is a block that was put there, and nobody else has that block.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::mem::ManuallyDrop;
use std::ptr::{NonNull, null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use super::Block;
use crate::record::Record;

/// Bits of the addresses that a process can use on current machines. Larger addresses have no place.
const ADDRESSES: u32 = 48;
/// Places of a part, as a power of two: 32 MiB of addresses of the host.
const PART: u32 = 22;

/// A block of so many bytes, as a power of two, has its place in `LARGE`. With 64 KiB, more blocks would be in `SMALL`, which takes more pages.
const LARGE_BYTES: u32 = 14;
const SMALL_BYTES: u32 = Block::ALIGNMENT.trailing_zeros();

/// Stands at the place of a block that a thread is using. No record has this address, since records are aligned.
const IN_USE: *mut Record = without_provenance_mut(1);
/// The upper 16 bits of an entry say where in its window the block begins. Pointers of 64 bits do not use them. A block whose pointer does
/// has its place in `SMALL`.
const OFFSET: u32 = usize::BITS - 16;

type Part = [AtomicPtr<Record>; 1 << PART];

/// A table with a place for each window of 2^`WINDOW` bytes.
struct AddressTable<const WINDOW: u32, const PARTS: usize>([AtomicPtr<Part>; PARTS]);

static LARGE: AddressTable<LARGE_BYTES, { 1 << (ADDRESSES - PART - LARGE_BYTES) }> = AddressTable::new();
static SMALL: AddressTable<SMALL_BYTES, { 1 << (ADDRESSES - PART - SMALL_BYTES) }> = AddressTable::new();

/// The place of a window, and where in this window a block begins.
struct Place {
    entry: &'static AtomicPtr<Record>,
    offset: usize,
    /// Whether blocks may begin elsewhere in the window, so that entries have an offset.
    has_offsets: bool,
}

/// Blocks by their addresses, for front ends whose clients know nothing else.
impl Block {
    /// Puts the block into a table, and returns its address. Returns the block if its address has no place, or another block of about its size
    /// has it, as blocks without bytes and those of devices that simulate memory may.
    #[inline]
    pub fn keep_by_address(self) -> Result<u64, Block> {
        let address = self.address();
        let is_large = self.bytes() >= 1 << LARGE_BYTES;
        let record = self.into_record();
        let large = if is_large { LARGE.made(address).filter(|place| place.may_have(&record)) } else { None };
        match large.or_else(|| SMALL.made(address)) {
            Some(place) if place.is_free() => place.put(record),
            _ => return Err(Block::of(record)),
        }
        Ok(address)
    }

    /// Takes the block that begins at this address out of its table, if there is one.
    #[inline]
    pub fn take_at(address: u64) -> Option<Block> {
        let (_, record) = exchange_at(address, |_| null_mut())?;
        // SAFETY: each entry of a table is the box of a block that was put there, and the exchange gave it to this thread alone.
        Some(Block::of(unsafe { Box::from_raw(record.as_ptr()) }))
    }

    /// Runs `act` on the block that begins at this address, if there is one. Other threads that ask for the block wait meanwhile, so `act` is
    /// short, and does not panic.
    pub fn with_at<R>(address: u64, act: impl FnOnce(&Block) -> R) -> Option<R> {
        let (place, record) = exchange_at(address, |place| place.entry_of(IN_USE))?;
        // SAFETY: as in `take_at`. The block is not dropped, and its box goes back to its place below.
        let block = ManuallyDrop::new(Block::of(unsafe { Box::from_raw(record.as_ptr()) }));
        let answer = act(&block);
        place.entry.store(place.entry_of(record.as_ptr()), Release);
        Some(answer)
    }

    /// The address and the bytes of the block in which this address lies, if there is one. It looks at all places before the address, down to
    /// the nearest large block.
    pub fn around(address: u64) -> Option<(u64, usize)> {
        let unit = address - address % Block::ALIGNMENT;
        let near = (0..1 << (LARGE_BYTES - SMALL_BYTES)).map_while(|units| unit.checked_sub(units * Block::ALIGNMENT));
        let within = |begin| {
            let bytes = Block::with_at(begin, Block::bytes)?;
            (address - begin < bytes as u64).then_some((begin, bytes))
        };
        near.into_iter().find_map(within).or_else(|| LARGE.nearest(address).and_then(within))
    }
}

/// Exchanges the record of the block that begins at this address for another entry, in the table that has it. Returns its place too.
#[inline]
fn exchange_at(address: u64, entry: impl Fn(&Place) -> *mut Record) -> Option<(Place, NonNull<Record>)> {
    if !address.is_multiple_of(Block::ALIGNMENT) {
        return None;
    }
    let exchange = |place: Place| place.exchange(entry(&place)).map(|record| (place, record));
    LARGE.find(address).and_then(exchange).or_else(|| SMALL.find(address).and_then(exchange))
}

impl<const WINDOW: u32, const PARTS: usize> AddressTable<WINDOW, PARTS> {
    const fn new() -> Self {
        AddressTable([const { AtomicPtr::new(null_mut()) }; PARTS])
    }

    /// The place for a block that begins at this address, if its part was made.
    #[inline]
    fn find(&'static self, address: u64) -> Option<Place> {
        let part = self.part(address)?.load(Acquire);
        // SAFETY: once a part is in the table it lives as long as the process, and it was zeroed before.
        let part: &'static Part = unsafe { part.as_ref() }?;
        Some(Self::place(part, address))
    }

    /// The place for a block that begins at this address. Makes its part.
    #[inline]
    fn made(&'static self, address: u64) -> Option<Place> {
        let part = self.part(address)?;
        // SAFETY: once a part is in the table it lives as long as the process. It was zeroed, which is a part without blocks.
        let made = unsafe { part.load(Acquire).as_ref() }.or_else(|| make(part))?;
        Some(Self::place(made, address))
    }

    #[inline]
    fn part(&'static self, address: u64) -> Option<&'static AtomicPtr<Part>> {
        self.0.get((address >> (WINDOW + PART)) as usize)
    }

    #[inline]
    fn place(part: &'static Part, address: u64) -> Place {
        let entry = &part[(address >> WINDOW) as usize % part.len()];
        let offset = (address % (1 << WINDOW) / Block::ALIGNMENT) as usize;
        Place { entry, offset, has_offsets: WINDOW > SMALL_BYTES }
    }

    /// Where the nearest block begins that has a place here, and begins at this address or before.
    fn nearest(&'static self, address: u64) -> Option<u64> {
        let mut window = self.part(address).map(|_| address >> WINDOW)?;
        loop {
            match self.find(window << WINDOW) {
                Some(place) => {
                    let begin = place.begin(window << WINDOW).filter(|&begin| begin <= address);
                    if begin.is_some() {
                        return begin;
                    }
                }
                // Goes to the end of the part before.
                None => window -= window % (1 << PART),
            }
            window = window.checked_sub(1)?;
        }
    }
}

impl Place {
    /// Whether the entry can say where the record's block begins, and no block that begins elsewhere has the place. On devices that simulate
    /// memory, such a block may overlap this one.
    #[inline]
    fn may_have(&self, record: &Record) -> bool {
        let found = self.entry.load(Relaxed);
        std::ptr::from_ref(record).addr() >> OFFSET == 0 && (found.is_null() || self.record_of(found).is_some())
    }

    #[inline]
    fn is_free(&self) -> bool {
        self.entry.load(Relaxed).is_null()
    }

    #[inline]
    fn put(&self, record: Box<Record>) {
        self.entry.store(self.entry_of(Box::into_raw(record)), Release);
    }

    /// Exchanges the record of the block that begins here for another entry. Waits while another thread has the record in use. `None` if
    /// there is no such record.
    #[inline]
    fn exchange(&self, other: *mut Record) -> Option<NonNull<Record>> {
        loop {
            let found = self.entry.load(Acquire);
            let record = self.record_of(found)?;
            if record != IN_USE {
                let record = NonNull::new(record)?;
                if self.entry.compare_exchange(found, other, AcqRel, Acquire).is_ok() {
                    return Some(record);
                }
            }
            std::hint::spin_loop();
        }
    }

    /// The record of an entry, if its block begins where this place says.
    #[inline]
    fn record_of(&self, entry: *mut Record) -> Option<*mut Record> {
        let record = entry.map_addr(|address| address ^ self.offset << OFFSET);
        (!self.has_offsets || record.addr() >> OFFSET == 0).then_some(record)
    }

    #[inline]
    fn entry_of(&self, record: *mut Record) -> *mut Record {
        record.map_addr(|address| address | self.offset << OFFSET)
    }

    /// The address at which the block of this window begins, if there is one. The window begins at `window`.
    fn begin(&self, window: u64) -> Option<u64> {
        let entry = self.entry.load(Relaxed);
        (!entry.is_null()).then(|| window + (entry.addr() >> OFFSET) as u64 * Block::ALIGNMENT)
    }
}

/// Reserves a part of a table. The allocator maps such a large piece, so the system zeroes each page when it is first written.
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
