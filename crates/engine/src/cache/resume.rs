//! The owner and the blocks that other streams may still use: when they are taken in.

use super::owner::Owner;
use crate::record::Record;

impl Owner {
    /// Takes in what came back while other streams may still use it.
    #[inline]
    pub(super) fn take_deferred(&self) {
        if !self.with(|local, _| local.deferred.is_empty()) {
            self.order_deferred();
        }
    }

    #[cold]
    fn order_deferred(&self) {
        // Devices are called while the blocks are out of the cache.
        let mut deferred = self.with(|local, _| std::mem::take(&mut local.deferred));
        deferred.order();
        while let Some(record) = deferred.pop() {
            self.shared.counters.resumed(record.bytes());
            self.put(record);
        }
        let more = self.with(|local, _| std::mem::replace(&mut local.deferred, deferred));
        self.with(|local, _| local.deferred.append(more));
    }

    /// Keeps a block that other streams may still use.
    pub(super) fn defer(&self, record: Box<Record>) {
        self.shared.counters.deferred(record.bytes());
        self.with(|local, _| local.deferred.push(record));
    }
}
