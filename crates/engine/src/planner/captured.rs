//! Entries whose work is captured: whether a plan served all of an entry, and the memory that a graph of it uses.

use std::ops::Range;

use super::Planner;
use crate::device::{Stream, is_one_queue};
use crate::home::{Counter, Shared};
use crate::record::ArenaId;

/// After so many launches the sizes of the scope have mostly settled, and its arena stays. Before, keys come whose arena is larger, and
/// the memory of the outgrown one is better used at once: 16 batch sizes then reserve 1.05 times the memory of the largest, not 1.08.
const SETTLED: u32 = 2;
/// One of so many launches is an entry of the scope, although none is due: it does what waits for one, such as forgetting a ring that was taken away.
/// Without an entry, a run touches fewer lines of the processor's cache: 210 instead of 242 in a simulation. With 2^22 elements on an
/// H200, where those lines are cold, one entry in sixteen made the mean run about 120 ns longer.
const FULL_ENTRY: u32 = 256;
/// The bytes in use during a launch. One byte stands for all of them: a lease with anything alive is not revoked.
const IN_LAUNCH: u64 = 1;
/// A request of less than this share of the arena leaves it to its graphs in any case.
const SMALL: u64 = 8;

/// The progress of an entry, to compare with a later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EntryProgress {
    arena: Option<ArenaId>,
    /// Allocations that the plans served.
    served: u64,
    /// Whether nothing of the arena was alive.
    is_idle: bool,
    /// The bytes and allocations that lists, rings and the range served, as one sum. Only its changes matter: arrays without bytes come from a
    /// list, and a graph does not need them.
    beside: u64,
}

impl Planner {
    pub(crate) fn progress(&self, shared: &Shared) -> EntryProgress {
        let listed = shared.counters.get(Counter::ListedBytes);
        let beside = listed + shared.counters.get(Counter::Supplied) + self.carry.served();
        let is_idle = shared.lease.live() == 0;
        EntryProgress { arena: self.hot.arena, served: self.hot.cursor.served(), is_idle, beside }
    }

    /// Whether the plans served all allocations since `before`, from one arena that was idle, and all of these arrays were dropped.
    pub(crate) fn has_served_all_since(&self, before: EntryProgress, shared: &Shared) -> bool {
        let now = self.progress(shared);
        let is_of_one_arena = now.arena == before.arena && before.is_idle;
        let is_all_planned = now.beside == before.beside && (is_of_one_arena || now.served == before.served);
        is_all_planned && now.is_idle
    }

    /// The addresses of the plans' memory on this stream, if there is any and nothing in it is alive.
    pub(crate) fn idle_place(&self, shared: &Shared, stream: &Stream) -> Option<Range<u64>> {
        let arena = self.arena.as_ref().filter(|arena| is_one_queue(&arena.stream, stream))?;
        let is_idle = shared.lease.live() == 0 && !shared.lease.is_lost();
        is_idle.then(|| self.hot.base..self.hot.base + arena.bytes)
    }

    /// Records the next entry of a captured scope, although there may be a plan. From now on the arena may cost the range memory, since
    /// there is no graph without an arena.
    pub(crate) fn record_for_graph(&mut self, shared: &Shared) {
        shared.note_graphs();
        self.learning.curiosity.record_next();
        self.end_pause();
        (self.is_captured, self.learning.learner.has_turns) = (true, true);
    }

    /// Whether the arena stays although a request of `need` bytes makes the range grow, because graphs use it. They would have to be
    /// captured again, and the request is often that of an output, which they need beside the arena. Another scope's plan asks with 0,
    /// and takes the arena for one of its own.
    pub(super) fn keeps_for_graphs(&self, need: u64) -> bool {
        let Some(arena) = self.arena.as_ref().filter(|_| self.is_captured && need > 0) else { return false };
        arena.launches >= SETTLED || need < arena.bytes / SMALL
    }

    /// Whether a graph can be launched in the memory at `place` without an entry, because planning has nothing to do then. If so, nobody can take
    /// the memory while the lease is raised. Without a `place` the graph needs no memory of the plans.
    #[inline]
    pub(crate) fn hold_for_launch(&mut self, shared: &Shared, stream: &Stream, place: Option<&Range<u64>>) -> bool {
        let is_there = place.is_none_or(|place| self.is_idle_at(shared, stream, place));
        is_there && self.can_pass(shared) && (place.is_none() || shared.lease.raise(0, IN_LAUNCH))
    }

    /// Whether planning has nothing to do at the beginning and the end of an entry that launches a graph. Counts the launch.
    #[inline]
    fn can_pass(&mut self, shared: &Shared) -> bool {
        self.launches = self.launches.wrapping_add(1);
        // Where the plans have no memory, an entry finds some, perhaps at the same address.
        let (is_ready, counts) = match &self.arena {
            Some(arena) => (arena.launches >= SETTLED && !shared.lease.is_lost(), true),
            None => (self.plans.is_empty(), self.trimming.has_spare()),
        };
        is_ready && !self.launches.is_multiple_of(FULL_ENTRY) && (!counts || self.trimming.passes())
    }

    /// Whether the memory of the plans is idle on this stream, and begins at `place` and is as long.
    #[inline]
    fn is_idle_at(&self, shared: &Shared, stream: &Stream, place: &Range<u64>) -> bool {
        let now = self.idle_place(shared, stream);
        now.is_some_and(|now| now.start == place.start && now.end >= place.end)
    }

    /// As [`hold_for_launch`](Planner::hold_for_launch), in an entry that launches a graph, and so allocates nothing and teaches nothing. Waits
    /// until a thread that takes the memory is done.
    pub(crate) fn hold_in_entry(&mut self, shared: &Shared, stream: &Stream, place: Option<&Range<u64>>) -> bool {
        self.entry.is_skipped = true;
        self.arena.iter_mut().for_each(|arena| arena.launches = arena.launches.saturating_add(1));
        self.learning.stop();
        place.is_none_or(|place| self.is_idle_at(shared, stream, place) && shared.lease.insist(0, IN_LAUNCH))
    }
}
