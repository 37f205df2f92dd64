//! An entry inside the entry of another scope.
//!
//! Two arenas beside each other would take more memory than the two scopes ever use at once: the outer scope requests nothing while the inner
//! one is entered. So the arena of the inner scope is an allocation of the outer one, for the time of the inner entry. The outer scope plans
//! it as its other allocations:
//!
//! 1. While the outer scope records an entry, it logs the inner entry as an allocation of as many bytes as the inner scope's plans need. Inner
//!    entries whose arrays outlive them are left out.
//! 2. Once the outer scope's plan expects that allocation, the inner arena lies there. Until then it is one of the range, as that of any scope.
//!
//! The block returns to the outer scope when the inner entry ends, or with the last array that lives in it.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::owner::{Cache, Owner};
use super::{arena_bound, current};
use crate::device::Stream;
use crate::home::{Counter, Visit};
use crate::planner::{Begun, Planner};
use crate::range::DeviceRange;
use crate::record::{ArenaId, Origin, OuterBlock, Record};
use gpucache_plan::entries::Evicted;

/// The arena of the scope around goes if the range lacks more than this share, 1/16, of what the scope inside needs beyond what it has. Less may be a page
/// or two. And it goes only if as large a share of what the range lacks is idle in it.
const LACKING: u64 = 16;

impl Owner {
    /// Before an entry: asks the scope around for a block for the arena.
    #[inline]
    pub(super) fn begin_inside(&self, visit: Visit) {
        let may_ask = matches!(visit, Visit::Entry | Visit::Uncaptured);
        // In its first entry, which may be an endless one, that scope lends its arena instead.
        let outer = current::around(self).filter(|outer| may_ask && !outer.is_endless());
        if outer.is_some() || self.with(|local, _| local.is_inside) {
            self.begin_inside_of(outer);
        }
    }

    #[cold]
    fn begin_inside_of(&self, outer: Option<Owner>) {
        if self.with(|local, _| local.is_inside) {
            // Arrays of the last entry that came back since then.
            self.settle();
            self.leave_block_late();
            if self.with(|local, _| local.planner.begins_in_block()) {
                return;
            }
        }
        self.with(|local, _| local.is_inside = outer.is_some());
        if let Some(outer) = outer
            && !self.moves_into(&outer)
        {
            self.begin_beside(&outer);
        }
    }

    /// Moves the arena to a block of the scope around, if that has one. A limit of either scope counts what the scope itself holds.
    fn moves_into(&self, outer: &Owner) -> bool {
        let has_limit = [self, outer].iter().any(|owner| owner.with(|local, _| local.limit.most() < u64::MAX));
        let arena = self
            .with(|local, shared| local.planner.movable_arena(shared).map(|(bytes, stream)| (bytes, stream.clone())));
        let Some((bytes, stream)) = arena.filter(|_| !has_limit) else { return false };
        let Some(block) = outer.serve_inner(&stream, (self.number(), bytes)) else { return false };
        self.note_holding_of(&stream);
        self.change(|planner, shared| planner.install_inside(&self.door, shared, (block, bytes, stream)));
        true
    }

    /// Begins an entry with memory of its own. The scope around logs it, if its entry is recorded.
    fn begin_beside(&self, outer: &Owner) {
        self.shared.counters.set(Counter::IsInside, 0);
        let stream = self.with(|local, _| local.planner.known_stream().cloned());
        let demand = self.shared.counters.get(Counter::Demand).max(1);
        let noted = stream.and_then(|stream| {
            self.clear_around(outer, &stream);
            outer.with(|local, _| local.planner.note_inner(&stream, outer.number(), (self.number(), demand)))
        });
        self.with(|local, shared| local.planner.begin_beside(shared, noted));
    }

    /// If the range would have to grow for this entry, makes the scope around give up an arena with idle memory.
    fn clear_around(&self, outer: &Owner, stream: &Stream) {
        let idle = outer.with(|local, shared| local.planner.idle_arena(shared, stream));
        if idle == 0 || stream.is_capturing() {
            return;
        }
        let [demand, held] = [Counter::Demand, Counter::HeldBytes].map(|count| self.shared.counters.get(count));
        let free = DeviceRange::of(stream).map_or(0, |range| {
            let state = range.occupancy();
            state.reserved.saturating_sub(state.live)
        });
        let needed = demand.saturating_sub(held);
        let lacking = needed.saturating_sub(free);
        if lacking > needed / LACKING && idle > lacking / LACKING {
            outer.change(|planner, shared| planner.clear_for_inner(shared, self.number()));
        }
    }

    /// The number by which the scope around knows this one. No other one has it, except after 2^32 scopes.
    fn number(&self) -> u32 {
        (self.shared.number.load(Relaxed) as u32).max(1)
    }

    /// A block for the arena of a scope inside this one, if the plan expects it now.
    fn serve_inner(&self, stream: &Stream, scope: (u32, u64)) -> Option<OuterBlock> {
        let record = self.with(|local, shared| local.planner.serve_inner(shared, stream, scope));
        if record.is_none() {
            // The arena may be lost.
            self.change(|_, _| ());
        }
        let cache: &'static Cache = self;
        record.map(|record| OuterBlock::of(record, &cache.shared.lent))
    }

    /// After an entry: returns the block to the scope around, if nothing in it is alive.
    #[inline]
    pub(super) fn end_inside(&self) {
        if self.with(|local, _| local.is_inside) {
            self.end_inside_of();
        }
    }

    #[cold]
    fn end_inside_of(&self) {
        let (begun, bytes) = self.with(|local, shared| local.planner.end_inside(shared));
        self.leave_block_late();
        // If others drop memory before this scope has its peak, a block for the peak would be more than is ever needed at once.
        let rise = self.with(|local, shared| local.planner.rise(shared));
        let bytes = bytes.filter(|&bytes| arena_bound::own_need(bytes, rise) == bytes);
        if let (Begun::Beside(noted), Some(outer)) = (begun, current::around(self)) {
            outer.with(|local, shared| local.planner.note_inner_end(shared, outer.number(), noted, bytes));
        }
    }

    /// Returns the block to the scope around after the entry, once nothing in it is alive.
    #[inline]
    pub(super) fn leave_block_late(&self) {
        if self.with(|local, _| local.is_inside && local.planner.has_left()) {
            self.leave_block();
        }
    }

    #[cold]
    fn leave_block(&self) {
        let block = self.with(|local, shared| {
            let block = local.planner.leave_block(shared);
            local.is_inside = local.planner.is_in_block();
            block
        });
        block.into_iter().for_each(|block| self.let_go(block));
    }

    /// Gives an arena up that lies in a block of the scope around. The block returns if nothing in it is alive and nothing needs its memory. Otherwise it
    /// goes to the range, with all of the arena around it: one array could keep the whole block for long.
    pub(super) fn give_up_inside(
        &self,
        (mut block, stream): (OuterBlock, &Stream),
        arena: ArenaId,
        live: &[Evicted],
        is_needed: bool,
    ) {
        // Within the entry, this scope itself goes on with other memory.
        let is_within = current::around(self).is_none();
        if !live.is_empty() || is_needed || is_within {
            if let Some(whole) = block.detach() {
                self.keep_parts(stream, whole, arena, live.iter());
            } else if !live.is_empty() {
                // Another thread has the scope around now.
                let block: Arc<dyn Any + Send + Sync> = Arc::new(block);
                let places = live.iter().map(|live| (live.position, Origin::Part(block.clone()))).collect();
                return self.with(|local, shared| local.planner.note_escaped(shared, arena, places));
            }
        }
        self.let_go(block);
    }

    /// Gives a record in the arena memory of its own. The arena goes.
    pub(super) fn detach(&self, record: &mut Record) {
        self.with(|local, _| local.planner.release_escaped(record));
        if self.with(|local, _| local.planner.is_in_arena(record)) {
            self.change(Planner::give_way);
            self.with(|local, _| local.planner.release_escaped(record));
        }
    }
}
