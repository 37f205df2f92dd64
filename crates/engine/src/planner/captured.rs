//! Entries whose work is captured: whether a plan served all of an entry, and the memory that a graph of it uses.

use super::Planner;
use crate::home::{Counter, Shared};
use crate::record::ArenaId;

/// The progress of an entry, to compare with a later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    arena: Option<ArenaId>,
    /// Allocations that the plans served.
    served: u64,
    /// Whether nothing of the arena was alive.
    is_idle: bool,
    /// What lists, rings and the range served. It is a sum of bytes and allocations, of which only changes are of interest: arrays without
    /// bytes come from a list, and a graph does not need them.
    beside: u64,
}

/// The memory of a scope's plans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The first address.
    pub address: u64,
    /// The length in bytes.
    pub bytes: u64,
}

impl Planner {
    pub(crate) fn progress(&self, shared: &Shared) -> Progress {
        let listed = shared.counters.get(Counter::ListedBytes);
        let beside = listed + shared.counters.get(Counter::Supplied) + self.carry.served();
        let is_idle = shared.lease.live() == 0;
        Progress { arena: self.hot.arena, served: self.hot.cursor.served(), is_idle, beside }
    }

    /// Whether the plans served all allocations since `before`, from one arena that was idle, and all of these arrays were dropped.
    pub(crate) fn has_served_all_since(&self, before: Progress, shared: &Shared) -> bool {
        let now = self.progress(shared);
        let is_of_one_arena = now.arena == before.arena && before.is_idle;
        let is_all_planned = now.beside == before.beside && (is_of_one_arena || now.served == before.served);
        is_all_planned && now.is_idle
    }

    /// The memory of the plans on this stream, if there is any and nothing in it is alive.
    pub(crate) fn idle_place(&self, shared: &Shared, stream: u64) -> Option<Place> {
        let arena = self.arena.as_ref().filter(|arena| arena.stream.id() == stream)?;
        let is_idle = shared.lease.live() == 0 && !shared.lease.is_lost();
        is_idle.then_some(Place { address: self.hot.base, bytes: arena.bytes })
    }

    /// Notes that the entry launches a graph, and so allocates nothing. It teaches nothing.
    pub(crate) fn skip(&mut self) {
        self.entry.is_skipped = true;
        self.learning.learner.is_recording = false;
        self.learning.is_recording = false;
        self.learning.learner.forget_entry();
    }
}
