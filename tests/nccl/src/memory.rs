//! Memory that is allocated here, and its registrations.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::driver;
use crate::world::lock;

/// The bytes and the number of registrations of each allocation, by address.
static MEMORY: Mutex<BTreeMap<u64, (usize, usize)>> = Mutex::new(BTreeMap::new());

/// Whether registrations are refused.
pub(crate) static REFUSES: AtomicBool = AtomicBool::new(false);

pub(crate) fn allocate(bytes: usize) -> Option<u64> {
    let mut address = 0;
    // SAFETY: the function writes one address, for which there is room.
    let status = unsafe { (driver::get()?.allocate)(&mut address, bytes) };
    (status == 0).then(|| {
        lock(&MEMORY).insert(address, (bytes, 0));
        address
    })
}

/// Frees memory that is not registered.
pub(crate) fn free(address: u64) -> bool {
    let mut memory = lock(&MEMORY);
    if memory.get(&address).is_none_or(|known| known.1 > 0) {
        return false;
    }
    memory.remove(&address);
    // SAFETY: the memory was allocated above, and is freed once. The caller has waited for all work.
    driver::get().is_some_and(|driver| unsafe { (driver.free)(address) } == 0)
}

/// Registers a whole allocation.
pub(crate) fn register(address: u64, bytes: usize) -> bool {
    match lock(&MEMORY).get_mut(&address) {
        Some((all, registrations)) if *all == bytes && !REFUSES.load(SeqCst) => {
            *registrations += 1;
            true
        }
        _ => false,
    }
}

pub(crate) fn deregister(address: u64) -> bool {
    match lock(&MEMORY).get_mut(&address) {
        Some((_, registrations)) if *registrations > 0 => {
            *registrations -= 1;
            true
        }
        _ => false,
    }
}
