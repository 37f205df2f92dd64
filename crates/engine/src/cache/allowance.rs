//! The limit of a scope: how much it may hold on one thread, in use or idle. What is idle goes back before that is exceeded,
//! and what would exceed it all the same is refused.
//!
//! A scope holds what arrays have of it, what its lists keep, and the blocks of its plans. All three grow here alone: by a
//! supply, by a plan's block, and by a ring.

use super::owner::Owner;
use crate::base::error::{Error, Result};
use crate::base::shortage::Bound;
use crate::device::Stream;
use crate::home::{Counter, Fact};
use crate::pressure::reclaim::{Holder, Releaser};
use crate::pressure::request::Asked;
use crate::range::DeviceRange;
use crate::record::Request;

impl Owner {
    /// How much more than its limit the scope would hold with so many bytes more. Without a limit that is what a number says, as the
    /// memory of several devices may be more together: what is counted of the scope then never wraps around.
    fn excess(&self, more: u64) -> u64 {
        let limit = self.with(|local, _| local.limit);
        let held = u128::from(self.shared.counters.get(Counter::HeldBytes)) + u128::from(more);
        u64::try_from(held.saturating_sub(u128::from(limit))).unwrap_or(u64::MAX)
    }

    /// Whether the scope may hold so many bytes more.
    pub(super) fn allows(&self, more: u64) -> bool {
        self.excess(more) == 0
    }

    /// The same of bytes that are rounded up to whole pages.
    pub(super) fn allows_whole(&self, range: &DeviceRange, more: u64) -> bool {
        let is_free = self.with(|local, _| local.limit) == u64::MAX;
        is_free || self.allows(more.saturating_add(range.occupancy().granule))
    }

    /// Gives back what is idle and more than the limit that an entry has set, or that holds again after one.
    pub(super) fn shrink(&self) {
        self.make_room_for(0);
    }

    fn make_room_for(&self, more: u64) {
        while !self.allows(more) && self.release_some(self.excess(more), Releaser::Others) > 0 {}
    }

    /// Has the scope hold as much less as a supply needs.
    ///
    /// # Errors
    /// [`is_out_of_memory`](Error::is_out_of_memory) if too much of it is in use.
    #[inline]
    pub(super) fn make_allowance(&self, stream: &Stream, request: &Request<'_>) -> Result<()> {
        // What needs no memory is served, however low the limit is by now.
        if request.bytes == 0 || self.allows(request.bytes as u64) {
            Ok(())
        } else {
            self.insist_on_limit(stream, request)
        }
    }

    #[cold]
    fn insist_on_limit(&self, stream: &Stream, request: &Request<'_>) -> Result<()> {
        let (bytes, limit) = (request.bytes as u64, self.with(|local, _| local.limit));
        self.note_sample(Fact::Squeezed, request);
        // What is more than the limit is had by nothing that goes back.
        if bytes <= limit {
            self.make_room_for(bytes);
        }
        if self.allows(bytes) {
            return Ok(());
        }
        let held = self.shared.counters.get(Counter::HeldBytes);
        let detail = format!("{held} of the {limit} bytes that it may hold on a thread are held");
        let error = Error::out_of_memory("the scope", request.bytes, detail).of_limit(limit, Bound::Scope);
        let holder: &'static dyn Holder = **self;
        Err(Asked { stream, bytes, dims: request.dims, holder: Some(holder) }.refused(error))
    }
}
