//! Blocks that returned while other streams may still use them.
//!
//! Before such memory is used again, its own stream has to wait for those streams. It waits as late as possible: when a request
//! finds nothing, or when the entry ends. So one event for each stream serves all blocks that returned until then, and work that
//! needs none of them is not delayed. The event covers the work that was on the other streams when the last of the blocks was
//! dropped. It leaves out later work, if the streams ended their epochs in between.

use crate::record::{Fence, Record};

/// Blocks that wait for other streams. The owner of a cache has one of these.
#[derive(Default)]
pub(super) struct Deferred {
    pub(super) records: Vec<Box<Record>>,
    /// Kept between calls to save its allocation. The caller of `order` takes them out: each may have the last handle of its stream.
    pub(super) fences: Vec<Fence>,
}

impl Deferred {
    /// Orders each block's own stream behind the block's other users. Blocks for which this fails stay, and the next call tries
    /// again.
    pub(super) fn order(&mut self) {
        for (user, epoch) in self.records.iter_mut().flat_map(|record| record.last_uses()) {
            let fence = Fence::told(user, epoch);
            match self.fences.iter_mut().find(|known| known.stream().id() == user.id()) {
                Some(known) => known.extend(fence),
                None => self.fences.push(fence),
            }
        }
        for record in &mut self.records {
            // While a graph is captured, a stream cannot wait. That is no failure.
            if let Err(error) = record.follow_uses(&self.fences)
                && !error.is_unavailable()
            {
                record.stream().keep(error);
            }
        }
    }

    /// Takes out a block that waits for no other stream.
    pub(super) fn pop(&mut self) -> Option<Box<Record>> {
        let ready = self.records.iter_mut().rposition(|record| record.users().next().is_none())?;
        Some(self.records.swap_remove(ready))
    }
}
