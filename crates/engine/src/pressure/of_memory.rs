//! What front ends ask of a memory that is no device of the program's, such as the host's memory beside a device.

use std::sync::Arc;

use super::climbs::Climbs;
use super::{limits, reclaim, tally};
use crate::device::Memory;

/// Limits and reclaim of one [`Memory`].
pub trait MemoryPressure {
    /// Limits what the process holds of it, as [`limit`](super::limit()) limits a device.
    fn limit(&self, bytes: u64);

    /// Bytes that are in use, of all scopes.
    fn busy(&self) -> u64;

    /// What was reclaimed, and how.
    fn climbs(self: &Arc<Self>) -> Climbs;
}

#[doc(hidden)]
impl MemoryPressure for Memory {
    fn limit(&self, bytes: u64) {
        limits::limit_memory(self, bytes);
    }

    fn busy(&self) -> u64 {
        reclaim::busy(self.id())
    }

    fn climbs(self: &Arc<Self>) -> Climbs {
        tally::climbs_of_memory(self)
    }
}
