//! The owner and the blocks that other streams may still use: when they are taken in.
#![allow(unsafe_code)]

use super::owner::Cache;
use super::record::Record;

impl Cache {
    /// Takes in what came back while other streams may still use it. The calling thread owns the cache.
    #[inline]
    pub(super) fn take_deferred(&self) {
        // SAFETY: this thread owns the cache; nothing is called in here.
        if unsafe { !self.owned(|local, _| local.deferred.is_empty()) } {
            self.order_deferred();
        }
    }

    #[cold]
    fn order_deferred(&self) {
        // SAFETY: as above. Devices are called while the blocks are out of the cache.
        let mut deferred = unsafe { self.owned(|local, _| std::mem::take(&mut local.deferred)) };
        deferred.order();
        while let Some(record) = deferred.pop() {
            self.shared.counters.resumed(record.bytes());
            self.put(record);
        }
        // SAFETY: as above.
        let more = unsafe { self.owned(|local, _| std::mem::replace(&mut local.deferred, deferred)) };
        // SAFETY: as above.
        unsafe { self.owned(|local, _| local.deferred.append(more)) };
    }

    /// Keeps a block that other streams may still use. The calling thread owns the cache.
    pub(super) fn defer(&self, record: Box<Record>) {
        self.shared.counters.deferred(record.bytes());
        // SAFETY: this thread owns the cache; nothing is called in here.
        unsafe { self.owned(|local, _| local.deferred.push(record)) };
    }
}
