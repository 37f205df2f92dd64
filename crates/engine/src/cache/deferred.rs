//! Blocks that came back while other streams may still use them.
//!
//! Their own stream has to wait for those before the memory is used again, and waits as late as it can: when something
//! is missing, or when the entry ends. So one event a stream serves all blocks that came back until then, and work that
//! needs none of them is not held up. It waits for what the others had to do when the last of the blocks was dropped, and not
//! for what they were given since, where they ended their epoch in between.

use crate::record::{Fence, Record};

/// Blocks that wait for other streams; belongs to a cache's owner.
#[derive(Default)]
pub(super) struct Deferred {
    pub(super) records: Vec<Box<Record>>,
    /// Kept for its memory.
    fences: Vec<Fence>,
}

impl Deferred {
    /// Orders each block's own stream behind its other users, and keeps those for which this fails, which is tried again.
    pub(super) fn order(&mut self) {
        for (user, epoch) in self.records.iter_mut().flat_map(|record| record.last_uses()) {
            let fence = Fence::told(user, epoch);
            match self.fences.iter_mut().find(|known| known.stream().id() == user.id()) {
                Some(known) => known.extend(fence),
                None => self.fences.push(fence),
            }
        }
        for record in &mut self.records {
            // While a graph is captured there is no way to wait, and nothing wrong.
            if let Err(error) = record.follow_uses(&self.fences)
                && !error.is_unavailable()
            {
                record.stream().keep(error);
            }
        }
        self.fences.clear();
    }

    /// One that waits for nobody.
    pub(super) fn pop(&mut self) -> Option<Box<Record>> {
        let ready = self.records.iter_mut().rposition(|record| record.users().next().is_none())?;
        Some(self.records.swap_remove(ready))
    }
}
