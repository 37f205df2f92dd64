//! The device's memory: how much of it is used, and addresses for allocations, which lie in one stretch of the host's memory.
//!
//! The stretch is longer than the device's memory, so that holes do not make it run out first. Freed memory stays mapped: late work
//! writes to poisoned memory, and not to somebody else's heap.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use crate::answer::{Answer, Status, lock};

/// The device's memory if `MADEUP_BYTES` is not set.
const BYTES: u64 = 1 << 30;
/// The number of addresses for each byte of memory.
const STRETCH: u64 = 4;
/// Sizes are rounded up to this, as a driver's pool does.
const GRAIN: u64 = 512;

/// The bytes of the device: `MADEUP_BYTES`.
pub(crate) fn capacity() -> u64 {
    static CAPACITY: OnceLock<u64> = OnceLock::new();
    *CAPACITY.get_or_init(|| std::env::var("MADEUP_BYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(BYTES))
}

struct Arena {
    /// The length of each free stretch, by address. No two touch. `None` before the first request.
    free: Option<BTreeMap<u64, u64>>,
    /// The length of each allocation that nobody has freed, by address.
    live: BTreeMap<u64, u64>,
    /// The bytes of pages, and of allocations that were not freed or whose free is still to be done.
    used: u64,
    /// The bytes of allocations alone.
    allocated: u64,
}

static ARENA: Mutex<Arena> = Mutex::new(Arena { free: None, live: BTreeMap::new(), used: 0, allocated: 0 });

/// An allocation that was freed and cannot be freed again. Its memory stays until [`give_back`].
pub(crate) struct Freed {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

impl Arena {
    fn free(&mut self) -> Answer<&mut BTreeMap<u64, u64>> {
        if self.free.is_none() {
            let bytes = capacity().saturating_mul(STRETCH).next_multiple_of(GRAIN);
            self.free = Some(BTreeMap::from([(stretch(bytes)?, bytes)]));
        }
        self.free.as_mut().ok_or(Status::OUT_OF_MEMORY)
    }

    fn charge(&mut self, bytes: u64) -> Answer {
        match self.used.checked_add(bytes) {
            Some(used) if used <= capacity() => {
                self.used = used;
                Ok(())
            }
            _ => Err(Status::OUT_OF_MEMORY),
        }
    }

    /// Takes addresses from the first stretch that is long enough.
    fn take(&mut self, bytes: u64) -> Answer<u64> {
        let free = self.free()?;
        let found = free.iter().find(|(_, length)| **length >= bytes).map(|(address, length)| (*address, *length));
        let (address, length) = found.ok_or(Status::OUT_OF_MEMORY)?;
        free.remove(&address);
        if length > bytes {
            free.insert(address + bytes, length - bytes);
        }
        Ok(address)
    }

    fn give(&mut self, mut address: u64, mut bytes: u64) -> Answer {
        let free = self.free()?;
        if let Some(length) = free.remove(&(address + bytes)) {
            bytes += length;
        }
        let before = free.range(..address).next_back().map(|(start, length)| (*start, *length));
        if let Some((start, length)) = before.filter(|(start, length)| start + length == address) {
            address = start;
            bytes += length;
        }
        free.insert(address, bytes);
        Ok(())
    }
}

/// Addresses of the host whose memory appears when it is touched.
fn stretch(bytes: u64) -> Answer<u64> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: this makes a new mapping at addresses that the system chooses. Nobody has them.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes as usize, access, flags, -1, 0) };
    if address == libc::MAP_FAILED { Err(Status::OUT_OF_MEMORY) } else { Ok(address as u64) }
}

/// Memory for an allocation: its address, and its bytes, which may be more than requested.
pub(crate) fn allocate(bytes: u64) -> Answer<(u64, u64)> {
    let bytes = bytes.checked_next_multiple_of(GRAIN).ok_or(Status::OUT_OF_MEMORY)?;
    let mut arena = lock(&ARENA);
    arena.charge(bytes)?;
    let address = arena.take(bytes).inspect_err(|_| arena.used -= bytes)?;
    arena.allocated += bytes;
    arena.live.insert(address, bytes);
    Ok((address, bytes))
}

/// The allocation that begins at an address is no longer live.
pub(crate) fn retire(address: u64) -> Answer<Freed> {
    let bytes = lock(&ARENA).live.remove(&address).ok_or(Status::INVALID_VALUE)?;
    Ok(Freed { address, bytes })
}

/// Makes the memory available to others.
pub(crate) fn give_back(freed: Freed) -> Answer {
    let mut arena = lock(&ARENA);
    arena.used -= freed.bytes;
    arena.allocated -= freed.bytes;
    arena.give(freed.address, freed.bytes)
}

/// The live allocation around an address: its beginning, and its bytes.
pub(crate) fn around(address: u64) -> Option<(u64, u64)> {
    let arena = lock(&ARENA);
    let (start, bytes) = arena.live.range(..=address).next_back()?;
    (address - start < *bytes).then_some((*start, *bytes))
}

/// Counts pages as used.
pub(crate) fn charge(bytes: u64) -> Answer {
    lock(&ARENA).charge(bytes)
}

/// Counts pages as free again.
pub(crate) fn discharge(bytes: u64) {
    lock(&ARENA).used -= bytes;
}

/// Bytes that are free.
pub(crate) fn free() -> u64 {
    capacity() - lock(&ARENA).used
}

/// Bytes of allocations.
pub(crate) fn allocated() -> u64 {
    lock(&ARENA).allocated
}
