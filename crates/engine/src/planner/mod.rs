//! The planning of a scope on the owner's side: which plan serves an entry, and what the planner learns from the entry.
//!
//! All plans of a scope serve one stream and lie in one block of memory, their *arena*. Other threads can take the arena away while
//! nothing in it is alive ([`lease`](crate::pressure::lease)). The planner finds that out at the next request from the arena, at
//! the latest.
//!
//! **An entry.** First, [`Planner::begin`] chooses the plan that most likely serves the entry, or begins to record the entry.
//! For each allocation, [`Planner::serve`] serves the next position at the plan's cursor. For each drop, [`Planner::take_back`]
//! returns the position to the cursor. At the end, [`Planner::end`] learns from the entry, and decides whether to keep the plans
//! ([`fate`]).
//!
//! Invariants:
//!
//! - `hot.stream` and `hot.arena` name a stream and an arena only while the arena is there, or is not known to be gone.
//! - A record whose origin is that arena is a live position of `hot.cursor`, the cursor of the active plan.
//! - No method calls a device or drops a record. [`Begin`] and [`Effects`] tell the caller what to do.
//!
//! | file | content |
//! |---|---|
//! | `serve` | one allocation and one drop |
//! | `learner` | which entries are recorded, and which of them have the same order |
//! | `loops` | loops inside an entry, whose iterations are planned like entries; `loops/searching` finds them |
//! | `loops/behind`, `loops/outer`, `loops/misleading` | where an iteration ends; whether to search for a loop around the known one, or for one without the known ones |
//! | `loops/entries`, `loops/whole`, `loops/programs` | how entries with loops begin and end; whether to plan them as a whole; programs one behind the other in an entry |
//! | `cycles` | parts of an endless entry that end where few bytes are alive |
//! | `plans/repeats`, `plans/partial` | the plans of loops, and of the regular part of entries |
//! | `plans/layouts`, `plans/branches` | the same places for orders that begin alike, and entries that leave one plan for another |
//! | `plans/firsts`, `plans/predict` | the first sizes by which entries tell their plan; the plan of the next entry |
//! | `noting` | the facts about entries for a diagnosis |
//! | `ending` | the end of an entry, and what the planner learns from it |
//! | `fate` | how an entry went, and whether to keep plans, forget one, or forget all (pure functions); all ways to forget a plan |
//! | `arena` | how an arena comes and goes |
//! | `nested` | an arena inside the arena of the scope around |
//! | `elsewhere` | the stream of the plans, and plans that follow the scope to another one |
//! | `captured` | entries whose work is captured into a graph |
//! | `watch` | the log of a recorded entry, and the search for arrays that are never dropped |
//! | `carry` | the ring for arrays that outlive their entry |
//! | `carry/size`, `carry/worth`, `carry/comparison` | how large the ring becomes; whether it is worth its memory; whether the range needs less |
//! | `plans` | the plans themselves, and which of them is active |
//! | `draft` | a layout of a plan |
//! | `footprint` | how much memory an arena may take |
//! | `needs` | the memory that a scope needs again and again between two arenas |
//! | `trimming` | when to look at the range for memory that no scope needs |
//! | `curiosity` | which entries are recorded although there is a plan |
//! | `recurring` | page moves that recur with plans, and the entries without plans that follow |
//! | `backoff` | waits that grow, and when the planner asks for an arena again |
//! | `effects` | the actions that the planner leaves to its caller, and its news for subscribers |

mod arena;
mod backoff;
mod captured;
mod carry;
mod curiosity;
mod cycles;
mod draft;
mod effects;
mod elsewhere;
mod ending;
mod fate;
mod footprint;
mod learner;
mod loops;
mod needs;
mod nested;
mod noting;
mod plans;
mod recurring;
mod rise;
mod serve;
mod trimming;
mod watch;

use std::mem::offset_of;

use crate::device::Stream;
use crate::home::Shared;
use crate::record::{ArenaId, Door, DropPath, RecordStack};
use gpucache_plan::entries::Cursor;

use arena::{Arena, Escaped};
use backoff::Backoff;
pub(crate) use backoff::Refused;
use carry::Carry;
pub(crate) use carry::RingGrowth;
use cycles::Cycles;
#[cfg(feature = "tracing")]
pub(crate) use effects::News;
pub(crate) use effects::{ArenaMemory, Begin, Effects, Vacated};
use ending::Learning;
use fate::{Course, LEFT_OUT};
use footprint::Footprint;
use loops::Loops;
pub(crate) use nested::Begun;
use nested::Nested;
use noting::Noted;
use plans::Plans;
use recurring::RecurringMoves;
pub(crate) use serve::Resolved;
pub(crate) use trimming::Look;
use trimming::Trimming;
use watch::Watch;

/// The plans of a scope, the cursor of the active plan, and what was learned for future plans.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Planner {
    hot: Hot,
    carry: Carry,
    entry: EntryState,
    plans: Plans,
    arena: Option<Arena>,
    escaped: Escaped,
    /// Waits before arrays that outlived their entry are evicted from an arena again. An eviction costs the arena, and a layout.
    evictions: Backoff,
    learning: Learning,
    footprint: Footprint,
    trimming: Trimming,
    /// The last refusal of an arena, while there is none.
    refused: Option<Refused>,
    effects: Effects,
    noted: Noted,
    loops: Loops,
    cycles: Cycles,
    watch: Watch,
    recurring: RecurringMoves,
    rise: rise::Rise,
    nested: Nested,
    /// Whether graphs use the memory of the plans.
    is_captured: bool,
    /// Launches of graphs. The number may wrap around.
    launches: u32,
    /// Waits before the plans follow an entry to another stream again.
    moves: Backoff,
    /// Whether the plans moved in vain, and have not gone back yet.
    may_return: bool,
    /// Streams with entries like the plans.
    proven: [u64; elsewhere::PROVEN],
    /// Entries in a row without an allocation that the plans could serve.
    strange: u32,
    /// Whether the last entry that deviated had as many allocations as its plan.
    was_as_long: bool,
    /// The bytes of the last two recorded entries that deviated, the later one first.
    recorded_bytes: (u64, u64),
    /// Allocations beside plans, as counted at the end of the last entry that did not go as planned.
    unplanned: u64,
}

/// The values that each allocation and drop needs, in two lines of the processor's cache: the words before the cursor, and the
/// cursor's own first line.
#[derive(Default)]
#[repr(C)]
struct Hot {
    /// The stream and the drop path that [`serve`](Planner::serve) and [`take_back`](Planner::take_back) compare with. They are
    /// those of `stream` and `arena`. While an entry is recorded or watched they match nothing, since such an entry takes slower
    /// paths that note everything.
    fast_stream: u64,
    fast_path: DropPath,
    /// The address of the arena.
    base: u64,
    /// How many bytes the plan may have in use before the use has to be noted again.
    room: u64,
    /// Records for the positions that the cursor serves.
    records: RecordStack,
    /// The door through which records return.
    door: Option<&'static Door>,
    /// The stream that the plans serve.
    stream: u64,
    arena: Option<ArenaId>,
    cursor: Cursor,
}

/// No stream has this number. It stands for the stream while there is no arena.
const NO_STREAM: u64 = 0;

const _: () = assert!(offset_of!(Hot, cursor) == 64 && offset_of!(Planner, hot) == 0);

/// The state of the current entry.
#[derive(Default)]
struct EntryState {
    /// The number of the entry, from 1; 0 before the first entry.
    number: u64,
    /// Whether a plan serves the entry, or served it until its arena was needed elsewhere.
    is_planned: bool,
    /// Whether the arena was given up during the entry.
    is_dissolved: bool,
    /// Whether the entry launches a graph instead of allocating.
    is_skipped: bool,
    /// Whether the first recorded allocation of the entry has come.
    has_stream: bool,
    /// Whether the plans may follow the entry to another stream, as its first allocation will tell.
    may_move: bool,
    /// Whether they did.
    has_moved: bool,
    /// Whether the first allocation was on another stream than the plans.
    is_elsewhere: bool,
    /// Allocations that nothing served at once.
    supplies: u32,
    /// The stream of the first of these, if that is not the plans' stream, and the size is that of a plan.
    begins_on: Option<u64>,
    /// The bytes of the first allocation; 0 if the planner did not look at it.
    first: u64,
    served_before: u64,
    seen: crate::home::Deviations,
    /// Allocations for which the ring had no room, although their arrays should be carried.
    aside: u64,
    /// Allocations that are not in the regular part of the entry, and found no room.
    irregular: u64,
    /// Allocations that the ring served because something alive was in their place.
    displaced: u64,
    /// A position whose place its own last array still had.
    overlapping: Option<usize>,
    /// The bytes by which the range had to grow.
    grown: u64,
    /// Whether the entry left a loop or cycles for the loop around them, so that their arena is to go back. Each request looks at this one flag.
    has_departed: bool,
}

impl Planner {
    /// Begins an entry of the scope, or a cycle of one. Returns what the caller has to do first.
    #[inline]
    pub(crate) fn begin_cycle(&mut self, shared: &Shared) -> Begin {
        if self.loops.is_used { self.begin_after_loops(shared) } else { self.begin(shared, None) }
    }

    /// Begins an iteration of a loop, as an entry does.
    #[cold]
    pub(crate) fn begin_iteration(&mut self, shared: &Shared) -> Begin {
        let next = self.loops.next.take();
        self.begin(shared, next)
    }

    /// Begins an entry, or an iteration of a loop whose `next` plan may be known. Returns what the caller has to do, if anything, before it
    /// calls [`begun`](Planner::begun).
    #[inline(always)]
    fn begin(&mut self, shared: &Shared, next: Option<usize>) -> Begin {
        let number = self.entry.number + 1;
        self.entry = EntryState { number, ..EntryState::default() };
        self.learning.begin(self.plans.is_empty());
        let is_told_by_first = shared.lease.live() == 0 && self.plans.choose_next(next, &mut self.hot.cursor);
        if self.arena.is_some() && shared.lease.is_lost() {
            self.lose(shared);
        }
        self.begin_ring(shared);
        self.entry.may_move = next.is_none();
        if self.arena.is_some() {
            self.begin_planned(shared);
            if is_told_by_first {
                self.look_again();
            }
            self.begun(shared);
            return Begin::Ready;
        }
        self.begin_without_arena(shared)
    }

    #[inline(always)]
    fn begin_without_arena(&mut self, shared: &Shared) -> Begin {
        if self.should_pause() {
            self.pause(shared);
            return Begin::Clear;
        }
        match self.plans.stream() {
            Some(stream) if self.plans.are_laid_out() && self.may_come_back() => {
                self.refused.iter_mut().for_each(Refused::count);
                let refused = self.refused;
                let may_grow = self.may_range_grow(shared, refused);
                let insists = self.is_captured;
                Begin::Install { bytes: self.plans.bytes(), stream: stream.clone(), refused, may_grow, insists }
            }
            _ => {
                self.begun(shared);
                Begin::Ready
            }
        }
    }

    /// Whether sizes grow from entry to entry.
    pub(crate) fn grows(&self) -> bool {
        self.plans.grows()
    }

    /// Whether the range may grow for the arena.
    fn may_range_grow(&self, shared: &Shared, refused: Option<Refused>) -> bool {
        // Where sizes grow, the range grows as well, and waiting does not make it find more room. The same holds where the rest of each
        // entry differs.
        let is_patient = refused.is_some_and(|refused| refused.was_patient());
        is_patient || self.plans.grows() || self.plans.is_partial() && self.is_enough(shared, self.plans.bytes(), 0)
    }

    /// Makes the active plan serve the entry from here on.
    fn begin_planned(&mut self, shared: &Shared) {
        let hot = &mut self.hot;
        (hot.fast_stream, hot.fast_path) = match hot.arena {
            Some(arena) if !self.learning.notes => (hot.stream, DropPath::of_arena(arena)),
            _ => (NO_STREAM, DropPath::NOBODYS),
        };
        hot.cursor.begin(shared.lease.live() > 0);
        self.entry.is_planned = true;
        self.carry.entries = self.carry.entries.saturating_add(1);
        self.entry.served_before = hot.cursor.served() + self.carry.served();
    }

    /// Makes each allocation and drop take the paths that record it.
    fn take_slow_paths(&mut self) {
        (self.hot.fast_stream, self.hot.fast_path) = (NO_STREAM, DropPath::NOBODYS);
        self.carry.path = DropPath::NOBODYS;
    }

    /// Whether it records, or has plans.
    #[inline]
    pub(crate) fn is_at_work(&self) -> bool {
        self.learning.is_recording || !self.plans.is_empty()
    }

    /// Whether an entry that it did not begin has an end for it: there is more to do for plans that were given up.
    #[inline]
    pub(crate) fn has_more_to_do(&self) -> bool {
        self.is_at_work() || self.trimming.has_spare()
    }

    /// Whether it has no arena, although it has plans, or had to forget them since page moves recurred.
    #[inline]
    pub(crate) fn lacks_arena(&self) -> bool {
        self.arena.is_none() && (!self.plans.is_empty() || self.recurring.has_paused())
    }

    /// Whether a plan may serve requests of this stream.
    #[inline]
    pub(crate) fn is_serving(&self, stream: u64) -> bool {
        stream == self.hot.stream
    }

    /// The plans' stream, if another thread wants the stream's open epoch to end.
    #[inline]
    pub(crate) fn wanted_stream(&self) -> Option<&Stream> {
        self.arena.as_ref().map(|arena| &arena.stream).filter(|stream| stream.is_wanted())
    }

    /// The queue of the plans' stream.
    pub(crate) fn queue(&self) -> Option<u64> {
        self.plans.stream().map(Stream::queue)
    }

    /// Whether a request left effects, which are due before it returns.
    #[inline]
    pub(crate) fn has_departed(&self) -> bool {
        self.entry.has_departed
    }

    /// Takes the actions that are due by now, for the caller to do.
    pub(crate) fn take_effects(&mut self) -> Effects {
        self.entry.has_departed = false;
        std::mem::take(&mut self.effects)
    }

    /// Publishes how much the cursor and the ring have served so far.
    pub(crate) fn publish(&self, shared: &Shared) {
        let cursor = &self.hot.cursor;
        let live = if shared.lease.live() > 0 { cursor.live() } else { 0 };
        let served = cursor.served().saturating_sub(self.nested.served);
        shared.counters.note_plan((served, live), (self.carry.served(), self.carry.live()));
    }

    /// For the owner: sets the peaks to the current use.
    pub(crate) fn reset_peaks(&mut self, shared: &Shared) {
        shared.reset_peaks();
        // The use is noted anew, up to the next peak.
        self.look_again();
    }

    /// Whether the entry left out many positions of its partial plan.
    #[cold]
    fn is_off(&self) -> bool {
        self.entry.is_planned && self.hot.cursor.left_out() * LEFT_OUT > self.hot.cursor.len() as u64
    }

    /// How the entry that ends went.
    fn course(&mut self) -> Course {
        let served = self.hot.cursor.served() + self.carry.served() - self.entry.served_before;
        let is_served_through = self.entry.is_planned && !self.entry.is_dissolved;
        if is_served_through && served > 0 {
            self.entry.seen.missing += self.hot.cursor.left();
        }
        let is_off = self.hot.cursor.is_partial() && self.is_off();
        Course { served, seen: self.entry.seen, is_served_through, is_off }
    }
}
