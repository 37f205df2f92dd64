//! Entries whose work is captured: whether a plan served all of an entry, and the memory that a graph of it uses.

use std::ops::Range;

use super::Planner;
use crate::device::{Stream, is_one_queue};
use crate::home::{Counter, Shared};
use crate::record::ArenaId;

/// After so many launches the sizes of the scope have mostly settled, and its arena stays. Before, keys come whose arena is larger, and
/// the memory of the outgrown one is better used at once: 16 batch sizes then reserve 1.05 times the memory of the largest, not 1.08.
const SETTLED: u32 = 2;
/// One of so many entries that launch graphs does all that other entries do: it counts down to the next look at memory that may go back.
const FULL_ENTRY: u32 = 16;
/// A request of less than this share of the arena leaves it to its graphs in any case.
const SMALL: u64 = 8;

/// The progress of an entry, to compare with a later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Progress {
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
        (self.is_captured, self.learning.learner.is_for_graphs) = (true, true);
    }

    /// Whether the arena stays although a request of `need` bytes makes the range grow, because graphs use it. They would have to be
    /// captured again, and the request is often that of an output, which they need beside the arena. Another scope's plan asks with 0,
    /// and takes the arena for one of its own.
    pub(crate) fn keeps_for_graphs(&self, need: u64) -> bool {
        let Some(arena) = self.arena.as_ref().filter(|_| self.is_captured && need > 0) else { return false };
        arena.launches >= SETTLED || need < arena.bytes / SMALL
    }

    /// Begins an entry that launches a graph. Returns whether planning has nothing to do at its beginning and its end. This work takes a fifth
    /// of the time of a launch, and suffices in every sixteenth entry.
    #[inline]
    pub(crate) fn begin_launch(&mut self, shared: &Shared) -> bool {
        self.launches = self.launches.wrapping_add(1);
        // Where the plans have no memory, a full entry finds some, perhaps at the same address.
        let is_ready = match &self.arena {
            Some(arena) => arena.launches >= SETTLED && !shared.lease.is_lost(),
            None => self.plans.is_empty(),
        };
        let counts = self.arena.is_some() || self.trimming.has_spare();
        self.entry.only_launches =
            is_ready && !self.launches.is_multiple_of(FULL_ENTRY) && (!counts || self.trimming.passes());
        self.entry.only_launches
    }

    /// Whether the entry only launches a graph, so that nothing has to be done at its end.
    #[inline]
    pub(crate) fn only_launches(&self) -> bool {
        self.entry.only_launches
    }

    /// Notes that the entry launches a graph, and so allocates nothing. It teaches nothing.
    pub(crate) fn skip(&mut self) {
        self.entry.is_skipped = true;
        self.arena.iter_mut().for_each(|arena| arena.launches = arena.launches.saturating_add(1));
        self.learning.stop();
    }
}
