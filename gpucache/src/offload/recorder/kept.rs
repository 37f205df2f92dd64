//! The pool of arrays that the entries of a thread make.
//!
//! A pool lives as long as it has an array. If all its arrays are made in entries, it may have none between them. The known order of the
//! entries applies to this pool alone, so the recorder keeps it until an entry makes no arrays of it.

use std::sync::Arc;

use crate::offload::host_pool::HostPool;

/// The pool, and the number of the last entry of which an array is gone.
#[derive(Default)]
pub(super) struct Kept(Option<(u64, Arc<HostPool>)>);

impl Kept {
    /// An array that the entry with this number made is gone. Returns the pool that was kept before, if it is another one.
    pub(super) fn note(&mut self, number: u64, pool: &Arc<HostPool>) -> Option<Arc<HostPool>> {
        match &mut self.0 {
            Some((last, kept)) if Arc::ptr_eq(kept, pool) => {
                *last = number;
                None
            }
            other => other.replace((number, pool.clone())).map(|(_, pool)| pool),
        }
    }

    /// The entry with this number has ended. Returns the pool if it is not kept any more.
    pub(super) fn end(&mut self, number: u64) -> Option<Arc<HostPool>> {
        self.0.take_if(|(last, _)| *last != number).map(|(_, pool)| pool)
    }
}
