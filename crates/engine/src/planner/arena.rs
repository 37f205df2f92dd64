//! How the arena of a scope's plans comes and goes.

use hashbrown::HashMap;

use super::backoff::{Backoff, Refused};
use super::effects::{ArenaMemory, Begin, Vacated};
use super::recurring::RecurringMoves;
use super::rise::Rise;
use super::{NO_STREAM, Planner};
use crate::device::Stream;
use crate::home::{Counter, Shared};
use crate::pressure::lease::{Leased, Piece};
use crate::pressure::transit::Transit;
use crate::range::{self, Carved, Obtained};
use crate::record::{ArenaId, Door, DropPath, Generation, Origin, OuterBlock, Record};

/// The block of memory in which the plans lie.
pub(super) struct Arena {
    pub(super) stream: Stream,
    pub(super) bytes: u64,
    pub(super) positions: u64,
    /// How many graphs were launched in it.
    pub(super) launches: u32,
    /// The block of the outer scope that it lies in.
    pub(super) outer: Option<OuterBlock>,
}

/// Arrays that were alive in an arena when it was given up, and are still in use: their memory and its generation, by arena and position.
pub(super) type Escaped = HashMap<(ArenaId, u32), (Origin, Generation)>;

impl Planner {
    /// Serves from an arena of `bytes` bytes that the planner asked for. Hands the block back if the plans were forgotten
    /// meanwhile, for example by an invalidation.
    pub(crate) fn install(
        &mut self,
        door: &'static Door,
        shared: &Shared,
        found: Option<Carved>,
        bytes: u64,
    ) -> Option<range::RangeBlock> {
        let (block, base, taken) = match found {
            Some(Carved { block, address, taken, .. }) => (Some(block), address, taken),
            None => (None, 0, Obtained::default()),
        };
        let Some(stream) = self.plans.stream().filter(|_| self.plans.bytes() == bytes).cloned() else {
            return block;
        };
        let (arena, positions) = (ArenaId::next(), self.plans.positions());
        let hot = &mut self.hot;
        (hot.base, hot.stream, hot.arena, hot.door) = (base, stream.id(), Some(arena), Some(door));
        hot.records.join(arena);
        (self.nested.arena, self.nested.since) = (None, self.entry.number);
        let pieces = block.map(Piece::of).into_iter().collect();
        shared.lease.begin(Leased { pieces, stream: stream.clone(), bytes });
        self.arena = Some(Arena { stream, bytes, positions, launches: 0, outer: None });
        let in_use = shared.counters.get(Counter::BesideLately);
        shared.counters.installed(bytes, positions, taken);
        self.refused = None;
        self.footprint.has_planned = true;
        self.trimming.renew(bytes, in_use, shared.counters.times_taken());
        self.begin_planned(shared);
        None
    }

    /// Whether the first allocation of the entry tells that the plan is too small, and the plan can be made larger before it serves anything.
    /// Also chooses the plan.
    pub(crate) fn begins_larger(&mut self, shared: &Shared, stream: u64, bytes: u64) -> bool {
        let is_free = self.arena.is_some() && stream == self.hot.stream && shared.lease.live() == 0;
        if !is_free || self.is_captured || !self.hot.cursor.is_at_start() {
            return false;
        }
        self.choose_plan(shared, bytes, false);
        self.plans.may_scale_to(bytes)
    }

    /// Makes the plan large enough for an entry with this first allocation. Returns the arena that it then needs.
    #[cold]
    pub(crate) fn enlarge(&mut self, shared: &Shared, bytes: u64) -> Begin {
        self.plans.scale_to(bytes);
        // The next entry is recorded, and shows whether the sizes still belong together.
        self.learning.curiosity.record_next();
        self.lay_out(shared);
        match self.plans.stream().cloned().filter(|_| self.arena.is_none() && self.plans.are_laid_out()) {
            // The first allocation told that the entry needs as much.
            Some(stream) => {
                self.entry.is_dissolved = false;
                Begin::Install { bytes: self.plans.bytes(), stream, refused: None, may_grow: true, insists: true }
            }
            None => {
                // The arena of another order is large enough.
                if self.arena.is_some() {
                    self.begin_planned(shared);
                }
                Begin::Clear
            }
        }
    }

    /// Notes that the range had no arena when `needed` bytes were in use or needed for it. Without an arena nobody looks at the range, which
    /// may have gaps that arrays of earlier arenas left.
    ///
    /// If not even a range that may grow had one, and the plan needs more than entries ever had in use at once, it holds sizes that do not come
    /// together. So the plans are learned anew.
    pub(crate) fn refuse(&mut self, needed: u64, shared: &Shared) {
        self.trimming.note_spare(shared.counters.times_taken());
        shared.counters.set(Counter::IsInside, 0);
        let is_patient = self.refused.is_some_and(|refused| refused.was_patient());
        self.refused = Some(Refused::again(self.refused, needed, self.plans.grows()));
        let holds_too_much = self.plans.need() > shared.counters.get(Counter::Demand);
        if is_patient && holds_too_much && !self.is_captured {
            self.forget_plans(shared);
            self.loops.learned = None;
            self.learning.begin_anew(self.entry.number);
        }
    }

    /// Gives the arena up. Arrays that are alive in it keep their own memory. If the arena was taken away, nothing in it is alive.
    pub(crate) fn vacate(&mut self, shared: &Shared) {
        let Some(Arena { bytes, positions, outer, stream, .. }) = self.arena.take() else { return };
        self.publish(shared);
        let live_bytes = shared.lease.live();
        let live = self.hot.cursor.evict();
        shared.counters.uninstalled(bytes, positions, (live.len() as u64, live_bytes), shared.lent.bytes());
        let transit = Transit::begin();
        let hot = &mut self.hot;
        let leased = shared.lease.end().map(ArenaMemory::OfRange);
        if let (Some(memory), Some(arena)) =
            (outer.map(|block| ArenaMemory::OfOuter(block, stream)).or(leased), hot.arena)
        {
            self.effects.vacated.push(Vacated { memory, arena, live, is_needed: false, transit });
        }
        self.nested.arena = None;
        (hot.stream, hot.arena) = (NO_STREAM, None);
        (hot.fast_stream, hot.fast_path) = (NO_STREAM, DropPath::NOBODYS);
        self.entry.is_dissolved = true;
        // From now on, the live arrays count as in use beside the next arena.
        self.look_again();
    }

    /// Notes that the arena was taken away. The entry goes on without an arena, and the planner learns nothing about the plan from
    /// it.
    #[cold]
    pub(super) fn lose(&mut self, shared: &Shared) {
        self.give_way(shared);
        self.entry.is_planned = false;
    }

    /// Gives up an arena that no entry uses, unless graphs do, for a range that would otherwise grow by `need` bytes. The ring goes in a shortage,
    /// or if most of it is idle.
    pub(crate) fn release_idle(&mut self, shared: &Shared, need: u64, is_short: bool) {
        let is_kept = !is_short && self.keeps_for_graphs(need);
        if !is_kept {
            if self.arena.is_some() {
                self.give_way(shared);
            }
            self.release_ring(shared, is_short);
        }
    }

    /// Gives up the arena of an entry if it is in the way of a range that must grow by `need` bytes. The ring goes in a shortage, or if most of
    /// it is idle. If a loop's arena goes again and again after the same number of iterations, leaves the loop for the one around it.
    pub(crate) fn release_what_hinders(&mut self, shared: &Shared, need: u64, is_short: bool) {
        if self.is_in_the_way(shared, need) && !self.departs(shared, need, true) {
            self.give_way(shared);
        }
        self.release_ring(shared, is_short);
    }

    /// Gives the arena up within an entry. An iteration of a loop is recorded from here on, so that its end is noticed.
    pub(crate) fn give_way(&mut self, shared: &Shared) {
        let left = self.hot.cursor.left();
        let before = self.effects.vacated.len();
        self.vacate(shared);
        self.effects.vacated.iter_mut().skip(before).for_each(|vacated| vacated.is_needed = true);
        self.go_unplanned(left as u32);
    }

    /// Notes the memory of the arrays that were alive in a vacated arena, by position.
    pub(crate) fn note_escaped(&mut self, shared: &Shared, arena: ArenaId, places: Vec<(u32, Origin)>) {
        let generation = shared.generation();
        let own = |(position, origin)| ((arena, position), (origin, generation));
        self.escaped.extend(places.into_iter().map(own));
    }

    /// If the record escaped from an arena, gives it the memory that is its own now.
    #[cold]
    pub(crate) fn release_escaped(&mut self, record: &mut Record) {
        let Some(arena) = record.arena() else { return };
        if let Some((origin, generation)) = self.escaped.remove(&(arena, record.position())) {
            record.leave_arena(origin, generation);
        }
    }

    /// Forgets all plans. New plans are made from later entries.
    pub(super) fn forget_plans(&mut self, shared: &Shared) {
        self.vacate(shared);
        self.vacate_ring(shared);
        self.effects.streams.extend(self.plans.clear(&mut self.hot.cursor));
        self.effects.records.push(std::mem::take(&mut self.hot.records));
        self.effects.records.push(std::mem::take(&mut self.carry.records));
    }

    /// Forgets all plans and all recordings.
    pub(crate) fn forget(&mut self, shared: &Shared) {
        self.loops.leave();
        self.cycles.forget();
        self.forget_plans(shared);
        self.effects.streams.extend(self.learning.forget());
        self.evictions = Backoff::default();
        self.footprint.moving = Backoff::default();
        (self.recurring, self.rise) = (RecurringMoves::default(), Rise::default());
        self.carry.trials = Backoff::default();
        shared.counters.set(Counter::IsInside, 0);
        self.nested.forget();
        self.trimming.forget_needs();
        self.refused = None;
        self.tell_stop(shared);
    }
}
