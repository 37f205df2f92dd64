//! The memory that the work of streams uses, from when the work is given to a stream until it is done.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::answer::{Answer, Status, lock};

/// The beginning and the end of the memory that each piece of work uses.
struct Uses {
    places: BTreeMap<u64, (u64, u64)>,
    made: u64,
}

static USES: Mutex<Uses> = Mutex::new(Uses { places: BTreeMap::new(), made: 0 });
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// A use of memory. It ends when this is dropped.
pub(crate) struct Use(u64);

impl Use {
    pub(crate) fn of(address: u64, bytes: usize) -> Use {
        let mut uses = lock(&USES);
        uses.made += 1;
        let number = uses.made;
        uses.places.insert(number, (address, address.saturating_add(bytes as u64)));
        Use(number)
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        lock(&USES).places.remove(&self.0);
    }
}

pub(crate) fn is_used(address: u64, bytes: usize) -> bool {
    let end = address + bytes as u64;
    lock(&USES).places.values().any(|&(from, to)| from < end && address < to)
}

/// Refuses and loses the context if work uses memory that is about to go. The memory stays, so that the work does not end the
/// process.
pub(crate) fn unused(address: u64, bytes: usize) -> Answer {
    if !is_used(address, bytes) {
        return Ok(());
    }
    IS_LOST.store(true, Ordering::SeqCst);
    Err(Status::ILLEGAL_ADDRESS)
}

/// Whether memory was about to go while work used it.
pub(crate) fn is_lost() -> bool {
    IS_LOST.load(Ordering::SeqCst)
}
