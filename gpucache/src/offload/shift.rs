//! Arrays that move on the device, so that an array which comes, or is made, finds its bytes side by side.
//!
//! Arrays of several sizes that come and go leave free memory apart. Pages could move under it, but a page goes only once no work uses it,
//! for which the thread waits until its stream runs dry. A copy on the device is in order with the stream, and takes a fiftieth of
//! what a copy over the bus does.

use std::sync::{Arc, Weak};

use super::host_pool::{HostPool, Rests};
use super::placement::Placement;
use gpucache_engine::Result;
use gpucache_engine::device::Stream;
use gpucache_engine::range::{Clearing, DeviceRange};

impl HostPool {
    /// Has all arrays leave that may, and gives the pages back that are free then: what comes next lies side by side again. The thread
    /// waits for all work.
    #[cold]
    pub(super) fn tidy(&self) {
        let stream = self.stream();
        let Some(range) = DeviceRange::of(stream) else { return };
        if stream.can_capture() && stream.is_capturing() {
            return;
        }
        for slot in self.slots_now().iter().filter_map(Weak::upgrade) {
            if slot.tag().placement.get() != Placement::Device {
                // What fails stays where it is.
                let _ = slot.evict();
            }
        }
        // What fails is met by the next call on the stream.
        let _ = stream.synchronize().and_then(|()| range.empty());
    }

    /// Has so many bytes be free side by side for `stream`, if they are free, but apart, and there can be no more. Whether that is so now, or
    /// nothing helps. What fails leaves arrays where they are: the allocation tells what is wrong.
    pub(super) fn clear(&self, stream: &Stream, bytes: u64) -> bool {
        let Some(range) = DeviceRange::of(stream) else { return true };
        if !range.lies_apart(bytes) || stream.can_capture() && stream.is_capturing() {
            return true;
        }
        let slots = self.slots_now();
        let lies = |slot: Arc<dyn Rests>| Some((slot.lies_at(stream)?, slot));
        let mut movable: Vec<_> = slots.iter().filter_map(|slot| slot.upgrade().and_then(lies)).collect();
        movable.sort_unstable_by_key(|(address, _)| *address);
        let addresses: Vec<u64> = movable.iter().map(|(address, _)| *address).collect();
        let found = range.clearing(stream, bytes, &addresses);
        found.is_some_and(|clearing| shift_all(&clearing, &movable).is_ok()) && !range.lies_apart(bytes)
    }

    /// How often pages of the pool's device went away, so far.
    pub(super) fn pages_gone(&self) -> u64 {
        self.stream().meter().read().unmapped_pieces
    }
}

/// Moves what lies in a place, the largest first, as it was found to fit.
fn shift_all(clearing: &Clearing, movable: &[(u64, Arc<dyn Rests>)]) -> Result<()> {
    let at = |address: &u64| movable.binary_search_by_key(address, |(at, _)| *at).ok();
    let mut moved: Vec<_> = clearing.blocks.iter().filter_map(at).map(|place| &movable[place].1).collect();
    moved.sort_by_key(|slot| std::cmp::Reverse(slot.tag().bytes));
    for slot in moved {
        if !slot.shift(clearing)? {
            break;
        }
    }
    Ok(())
}
