//! The limit of a scope: how many bytes it may reserve on one thread, in use or idle. A scope at its limit first gives idle memory
//! back. A request that would still exceed the limit is refused.
//!
//! The scope's arrays, its lists and the blocks of its plans count. All three grow only here: by a supply, by a plan's block, and
//! by a ring.

use super::owner::Owner;
use crate::base::amounts::Bytes;
use crate::base::error::{Error, Result};
use crate::base::shortage::Bound;
use crate::base::sync::lock;
use crate::device::Stream;
use crate::home::{Counter, Fact};
use crate::pressure::reclaim::Holder;
use crate::pressure::request::Asked;
use crate::range::DeviceRange;
use crate::record::Request;

impl Owner {
    /// By how many bytes the scope would exceed its limit if it reserved `more` bytes. Without a limit, the largest `u64` is the
    /// limit: the memory of several devices together may be more, and the scope's counters must never wrap around.
    fn excess(&self, more: u64) -> u64 {
        let limit = self.with(|local, _| local.limit.most());
        let held = u128::from(self.held()) + u128::from(more);
        u64::try_from(held.saturating_sub(u128::from(limit))).unwrap_or(u64::MAX)
    }

    /// The bytes that the scope reserves. Arenas of scopes inside are theirs, wherever they lie.
    fn held(&self) -> u64 {
        self.shared.counters.get(Counter::HeldBytes).saturating_sub(self.shared.lent.bytes())
    }

    /// Whether the scope may reserve `more` bytes.
    pub(super) fn allows(&self, more: u64) -> bool {
        self.excess(more) == 0
    }

    /// As [`allows`](Owner::allows), with the bytes rounded up to whole pages.
    pub(super) fn allows_whole(&self, range: &DeviceRange, more: u64) -> bool {
        let is_free = self.with(|local, _| local.limit.most()) == u64::MAX;
        is_free || self.allows(more.saturating_add(range.occupancy().granule))
    }

    /// Gives back idle memory until the limit has room for `more` bytes. Runs when an entry sets a limit, when an older limit applies again, and
    /// for a request.
    pub(super) fn make_room_for(&self, more: u64) {
        while !self.allows(more) && self.release_some(self.excess(more), self.asks()) > 0 {}
    }

    /// Gives idle memory back until the limit has room for a supply.
    ///
    /// # Errors
    /// [`is_out_of_memory`](Error::is_out_of_memory) if too much of the scope's memory is in use.
    #[inline]
    pub(super) fn make_allowance(&self, stream: &Stream, request: &Request<'_>) -> Result<()> {
        // A request of 0 bytes is served, however low the limit is by now.
        if request.bytes == 0 {
            return Ok(());
        }
        if self.with(|local, _| local.limit.asks_for(stream.memory())) {
            self.with(|local, _| local.limit.learn(stream.memory()))?;
        }
        if self.allows(request.bytes as u64) { Ok(()) } else { self.insist_on_limit(stream, request) }
    }

    #[cold]
    fn insist_on_limit(&self, stream: &Stream, request: &Request<'_>) -> Result<()> {
        let bytes = request.bytes as u64;
        let (limit, is_soft) = self.with(|local, _| (local.limit.most(), local.limit.is_soft()));
        self.note_sample(Fact::Squeezed, request);
        // A request larger than a hard limit would fail even if all memory went back.
        if bytes <= limit || is_soft {
            self.make_room_for(bytes);
        }
        if is_soft || self.allows(bytes) {
            return Ok(());
        }
        lock(&self.shared.reclaim).failed += 1;
        let held = Bytes(self.held());
        let detail = format!("{held} of at most {} are reserved by the scope on this thread", Bytes(limit));
        let error = Error::out_of_memory("the scope", request.bytes, detail).of_limit(limit, Bound::Scope);
        let holder: &'static dyn Holder = **self;
        Err(Asked { stream, bytes, dims: request.dims, holder: Some(holder) }.refused(error))
    }
}
