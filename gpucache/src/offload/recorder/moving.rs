//! The moves that a thread makes by a schedule. The recorder is not borrowed meanwhile.

use super::Due;
use super::thread::{count, with};
use crate::offload::host_pool::unasked;
use crate::offload::placement::Placement;
use gpucache_plan::offload::{Move, What};

/// Makes moves. A move that finds no memory may call handlers of the program. A failed move is made up for by the fetch of its array.
pub(super) fn make(due: Due) {
    for (slot, Move { what, array, before }) in due {
        match what {
            What::WriteBack => _ = unasked(&*slot, slot.write_back()),
            // Its placement may have changed meanwhile.
            What::Evict if slot.tag().placement.get() == Placement::Device => {}
            What::Evict => _ = unasked(&*slot, slot.evict()),
            What::Prefetch => {
                let at = with(|recorder| recorder.followed()?.address(array, before)).flatten();
                if unasked(&*slot, slot.bring(at)) == Some(true) {
                    count(slot.pool(), |stats| stats.prefetched += 1);
                }
            }
        }
    }
}
