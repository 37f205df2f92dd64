//! Moves arrays within the device, so that an array that comes, or is new, finds contiguous memory.
//!
//! Arrays of several sizes that come and go fragment the free memory. Pages could move, but a page moves only once no work uses it, and the
//! thread would wait until its stream is idle. A copy on the device is in order with the stream, and takes a fiftieth of the time of a
//! copy over the bus.

use std::ops::Range;
use std::sync::{Arc, Weak};

use super::host_pool::{HostPool, Rests, unasked};
use super::placement::Placement;
use gpucache_engine::device::Stream;
use gpucache_engine::range::DeviceRange;

impl HostPool {
    /// Moves all arrays to the host that may leave, and gives the free pages back, so that later arrays get contiguous memory. The thread
    /// waits for all work, for a limited time, since the work may wait for the thread. Returns the address of `bytes` contiguous bytes, and
    /// how many they are: fewer, if there are not as many.
    #[cold]
    pub(super) fn tidy(&self, bytes: u64) -> Option<(u64, u64)> {
        let stream = &self.stream;
        let range = DeviceRange::of(stream)?;
        if stream.can_capture() && stream.is_capturing() {
            return None;
        }
        for slot in self.present.now().iter().filter_map(Weak::upgrade) {
            if slot.tag().placement.get() != Placement::Device {
                // An array that fails to leave stays.
                let _ = unasked(&*slot, slot.evict());
            }
        }
        let found = range.empty().and_then(|is_empty| match is_empty {
            true => range.find_contiguous(stream, bytes),
            false => Ok(None),
        });
        found
            .map_err(|error| {
                if error.is_deferred() {
                    stream.keep(error)
                }
            })
            .ok()?
    }

    /// Makes `bytes` free bytes contiguous for `stream`, if as many are free but apart and the range cannot grow. Returns whether they are
    /// contiguous now, or nothing helps. After a failure arrays stay where they are, and the allocation reports it.
    pub(super) fn clear(&self, stream: &Stream, bytes: u64) -> bool {
        let Some(range) = DeviceRange::of(stream) else { return true };
        if !range.lies_apart(bytes) || stream.can_capture() && stream.is_capturing() {
            return true;
        }
        let slots = self.present.now();
        let lies = |slot: Arc<dyn Rests>| Some((slot.lies_at(stream)?, slot));
        let mut movable: Vec<_> = slots.iter().filter_map(|slot| slot.upgrade().and_then(lies)).collect();
        movable.sort_unstable_by_key(|(address, _)| *address);
        let addresses: Vec<u64> = movable.iter().map(|(address, _)| *address).collect();
        let found = range.clearing(stream, bytes, &addresses);
        found.is_some_and(|place| shift_all(&place, &movable)) && !range.lies_apart(bytes)
    }

    /// How often pages of the pool's device were unmapped so far.
    pub(super) fn pages_gone(&self) -> u64 {
        let [.., unmapped_pieces] = self.stream.meter().calls();
        unmapped_pieces
    }
}

/// Moves the arrays of a place, the largest first, as they were found to fit. Returns whether none failed.
fn shift_all(place: &Range<u64>, movable: &[(u64, Arc<dyn Rests>)]) -> bool {
    let lies_there = |(address, _): &&(u64, Arc<dyn Rests>)| place.contains(address);
    let mut moved: Vec<_> = movable.iter().filter(lies_there).map(|(_, slot)| slot).collect();
    moved.sort_by_key(|slot| std::cmp::Reverse(slot.tag().bytes));
    for slot in moved {
        match unasked(&**slot, slot.shift(place)) {
            None => return false,
            Some(false) => break,
            Some(true) => {}
        }
    }
    true
}
