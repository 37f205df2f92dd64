//! Blocks that returned while other streams may still use them.
//!
//! Before such memory is used again, its own stream has to wait for those streams. It waits as late as possible: when a request
//! finds nothing, or when the entry ends. So one event for each stream serves all blocks that returned until then, and work that
//! needs none of them is not delayed. The event covers the work that was on the other streams when the last of the blocks was
//! dropped. It leaves out later work, if the streams ended their epochs in between.

use smallvec::SmallVec;

use super::owner::Owner;
use crate::device::process_exits;
use crate::record::{Fence, Record};

impl Owner {
    /// Keeps a block that other streams may still use.
    pub(super) fn defer(&self, record: Box<Record>) {
        self.shared.counters.deferred(record.bytes);
        self.with(|local, _| local.deferred.push(record));
    }

    /// Takes in the blocks that returned while other streams might still use them.
    #[inline]
    pub(super) fn take_deferred(&self) {
        if !self.with(|local, _| local.deferred.is_empty()) {
            self.order_deferred();
        }
    }

    #[cold]
    fn order_deferred(&self) {
        if process_exits() {
            return;
        }
        // The blocks are out of the cache while devices are called.
        let mut deferred = self.with(|local, _| std::mem::take(&mut local.deferred));
        // Each fence may have the last handle of its stream.
        order(&mut deferred).into_iter().for_each(|fence| self.let_go_of_stream(fence.into_stream()));
        while let Some(ready) = deferred.iter_mut().rposition(|record| record.users().next().is_none()) {
            let record = deferred.swap_remove(ready);
            self.shared.counters.resumed(record.bytes);
            self.put(record);
        }
        let mut more = self.with(|local, _| std::mem::replace(&mut local.deferred, deferred));
        self.with(|local, _| local.deferred.append(&mut more));
    }
}

/// Orders each block's own stream behind the block's other users, and returns the points up to which it waits. A block for which this fails
/// keeps its users, and the next call tries again.
fn order(records: &mut [Box<Record>]) -> SmallVec<[Fence; 4]> {
    let mut fences = SmallVec::<[Fence; 4]>::new();
    for (user, epoch) in records.iter_mut().flat_map(|record| record.last_uses()) {
        let fence = Fence::told(user, epoch);
        match fences.iter_mut().find(|known| known.stream().id() == user.id()) {
            Some(known) => known.extend(fence),
            None => fences.push(fence),
        }
    }
    for record in records {
        // While a graph is captured, a stream cannot wait. That is no failure.
        if let Err(error) = record.follow_uses(&fences)
            && !error.is_unavailable()
        {
            record.stream().keep(error);
        }
    }
    fences
}
