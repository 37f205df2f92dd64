//! How a scope plans, the owner's side: which plan serves an entry, and what is learned from it.
//!
//! All plans of a scope lie in one block, their *arena*, and are of one stream. The arena stands where other threads can take it
//! away while nothing in it is alive ([`lease`](crate::pressure::lease)), which is found out when something is to be served from
//! it, at the latest. An entry begins ([`Planner::begin`]) with the plan that most likely serves it, or is recorded; its
//! allocations are served at the cursor ([`Planner::serve`]), its drops come back to it ([`Planner::take_back`]); and
//! it ends ([`Planner::end`]) with what it taught, and what becomes of the plans ([`fate`]).
//!
//! Invariants: `hot.stream` and `hot.arena` name a stream and an arena only while the arena is there, or is not known to be
//! gone; a record whose origin is that arena is a live position of `hot.cursor`, the cursor of the active plan. No method
//! calls a device or drops a record: [`Begin`] and [`Effects`] say what is to be done.
//!
//! | file | its one matter |
//! |---|---|
//! | `serve` | one allocation and one drop |
//! | `learner` | which entries are recorded, and which of them have the same order |
//! | `noting` | what is noted of entries for a diagnosis |
//! | `ending` | the end of an entry: what it teaches |
//! | `fate` | how it went, and what becomes of the plans (keep, forget one, forget all): pure |
//! | `arena` | how an arena comes and goes |
//! | `watch` | what is noted of an entry that is recorded, and which arrays are never dropped |
//! | `carry` | the ring of what outlives its entry; within it, `size` (how large it becomes) and `worth` (whether it is worth its memory: pure) |
//! | `plans` | the plans themselves, and which is active |
//! | `footprint` | how much memory an arena may take |
//! | `curiosity` | which entries are recorded though there is a plan |
//! | `backoff` | waits that grow, and when an arena is asked for again |
//! | `effects` | what others are to do, and to tell |

mod arena;
mod backoff;
mod carry;
mod curiosity;
mod draft;
mod effects;
mod ending;
mod fate;
mod footprint;
mod learner;
mod noting;
mod plans;
mod serve;
mod watch;

use std::mem::offset_of;

use crate::device::Stream;
use crate::home::Shared;
use crate::record::{ArenaId, Door, DropPath, RecordStack};
use gpucache_plan::entries::Cursor;

use arena::{Arena, Escaped};
pub(crate) use backoff::Refused;
use carry::Carry;
pub(crate) use carry::RingGrowth;
#[cfg(feature = "tracing")]
pub(crate) use effects::News;
pub(crate) use effects::{Begin, Effects, Vacated};
use ending::Learning;
use fate::Course;
use footprint::{Footprint, Trimming};
use noting::Noted;
use plans::Plans;
pub(crate) use serve::Resolved;
use watch::Watch;

/// Plans, the cursor of the active one, and what was learned for the next ones.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Planner {
    hot: Hot,
    carry: Carry,
    entry: EntryState,
    plans: Plans,
    arena: Option<Arena>,
    escaped: Escaped,
    learning: Learning,
    footprint: Footprint,
    trimming: Trimming,
    /// No arena was to be had.
    refused: Option<Refused>,
    effects: Effects,
    noted: Noted,
    watch: Watch,
    /// Whether the last entry that deviated had as many allocations as its plan.
    was_as_long: bool,
    /// Allocations beside plans until the last entry of which a plan served nothing, or that was noted.
    unplanned: u64,
}

/// What each allocation and drop needs, in two lines of the processor's cache: the words up to the cursor, and the cursor's
/// own first line.
#[derive(Default)]
#[repr(C)]
struct Hot {
    /// What [`serve`](Planner::serve) and [`take_back`](Planner::take_back) go by: `stream` and the path of `arena`, but nobody's while
    /// an entry is recorded or watched, which takes a closer look at everything.
    fast_stream: u64,
    fast_path: DropPath,
    /// Where the arena lies.
    base: u64,
    /// As many bytes may be in use by the plan before that is to be noted.
    room: u64,
    /// Records for what the cursor serves.
    records: RecordStack,
    /// Where records return to.
    door: Option<&'static Door>,
    /// The stream that is served.
    stream: u64,
    arena: Option<ArenaId>,
    cursor: Cursor,
}

/// What no stream is called. The default, as long as there is no arena.
const NO_STREAM: u64 = 0;

const _: () = assert!(offset_of!(Hot, cursor) == 64 && offset_of!(Planner, hot) == 0);

/// What happened in the entry that is under way.
#[derive(Default)]
struct EntryState {
    /// Counts entries; 0 for none.
    number: u64,
    /// Whether a plan serves it, or did until its arena was needed elsewhere.
    is_planned: bool,
    is_dissolved: bool,
    /// Whether its first recorded allocation has come.
    has_stream: bool,
    served_before: u64,
    seen: crate::home::Deviations,
    /// Allocations that were to be carried, and that the ring had no room for.
    aside: u64,
    /// Allocations that the ring served as something alive was in their place, and a position whose own last life that was.
    displaced: u64,
    overlapping: Option<usize>,
    /// Bytes by which the range had to grow.
    grown: u64,
}

impl Planner {
    /// Begins an entry.
    pub(crate) fn begin(&mut self, shared: &Shared) -> Begin {
        let number = self.entry.number + 1;
        self.entry = EntryState { number, ..EntryState::default() };
        self.learning.begin(self.plans.is_empty());
        if shared.lease.live() == 0 {
            self.plans.predict(&mut self.hot.cursor);
        }
        if self.arena.is_some() && shared.lease.is_lost() {
            self.lose(shared);
        }
        self.begin_ring(shared);
        if self.arena.is_some() {
            self.begin_planned(shared);
            return Begin::Ready;
        }
        match self.plans.stream() {
            Some(stream) if self.plans.are_laid_out() => {
                self.refused.iter_mut().for_each(Refused::count);
                let refused = self.refused;
                // Where sizes grow, so does the range, and waiting finds no more room.
                let may_grow = self.plans.grows() || refused.is_some_and(|refused| refused.was_patient());
                Begin::Install { bytes: self.plans.bytes(), stream: stream.clone(), refused, may_grow }
            }
            _ => Begin::Ready,
        }
    }

    /// From here on the active plan serves the entry.
    fn begin_planned(&mut self, shared: &Shared) {
        let hot = &mut self.hot;
        (hot.fast_stream, hot.fast_path) = match hot.arena {
            Some(arena) if !self.learning.notes => (hot.stream, DropPath::of_arena(arena)),
            _ => (NO_STREAM, DropPath::NOBODYS),
        };
        hot.cursor.begin(shared.lease.live() > 0);
        self.entry.is_planned = true;
        self.carry.count_entry();
        self.entry.served_before = hot.cursor.served() + self.carry.served();
    }

    /// Whether it serves, records, or has anything to do so with.
    #[inline]
    pub(crate) fn is_at_work(&self) -> bool {
        self.learning.is_recording || !self.plans.is_empty()
    }

    /// Whether it has plans, and no arena for them.
    #[inline]
    pub(crate) fn lacks_arena(&self) -> bool {
        self.arena.is_none() && !self.plans.is_empty()
    }

    /// Whether there is a plan to go by for requests of this stream.
    #[inline]
    pub(crate) fn is_serving(&self, stream: u64) -> bool {
        stream == self.hot.stream
    }

    /// The plans' stream, if another thread wants its open epoch to end.
    #[inline]
    pub(crate) fn wanted_stream(&self) -> Option<Stream> {
        self.arena.as_ref().map(|arena| &arena.stream).filter(|stream| stream.is_wanted()).cloned()
    }

    /// The queue of the plans' stream.
    pub(crate) fn queue(&self) -> Option<u64> {
        self.plans.stream().map(Stream::queue)
    }

    /// What is to be done by now.
    pub(crate) fn take_effects(&mut self) -> Effects {
        std::mem::take(&mut self.effects)
    }

    /// Tells everyone what the cursor did so far.
    pub(crate) fn publish(&self, shared: &Shared) {
        let cursor = &self.hot.cursor;
        let live = if shared.lease.live() > 0 { cursor.live() } else { 0 };
        shared.counters.note_plan((cursor.served(), live), (self.carry.served(), self.carry.live()));
    }

    /// For the owner: peaks are what is in use now.
    pub(crate) fn reset_peaks(&mut self, shared: &Shared) {
        shared.reset_peaks();
        // What is in use is noted anew, up to the next peak.
        self.look_again();
    }

    /// How the entry that ends went.
    fn course(&mut self) -> Course {
        let served = self.hot.cursor.served() + self.carry.served() - self.entry.served_before;
        let is_served_through = self.entry.is_planned && !self.entry.is_dissolved;
        if is_served_through && served > 0 {
            self.entry.seen.missing += self.hot.cursor.left();
        }
        Course { served, seen: self.entry.seen, is_served_through }
    }
}
