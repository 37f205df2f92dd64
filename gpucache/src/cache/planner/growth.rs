//! How much memory a plan's block may take: when pages had better move, when the block is in the way of others, and when
//! it is more than need be.

use super::{BESIDE, Planner};
use crate::cache::shared::Shared;

/// So few say nothing.
const FEW: u64 = 8;
/// In an entry the range may grow by this share of the block before the block itself is used.
const GROWTH: u64 = 64;
/// By less where the entry does not go by the plan.
const GROWTH_OFF: u64 = 512;
/// Where all of it does, the block stays while it and what is in use beside it are at most this share more than was ever
/// in use at once.
const KNOWN: u64 = 32;
/// Entries between two looks at how much of a plan is in use.
pub(super) const LOOK_IN: u32 = 16;
/// A plan may need this share more memory than all that was ever in use at once.
const WASTE: u64 = 10;
const LITTLE: u64 = 1 << 20;

impl Planner {
    /// Whether the range had better move pages than grow: a plan has shown what is enough, for this entry or lately.
    pub(in crate::cache) fn is_settled(&mut self) -> bool {
        let number = self.entry.number;
        let is_lately = self.has_planned && (self.moving.last == number || self.moving.is_over(number));
        self.entry.is_planned || is_lately
    }

    /// Whether the range had better have the block than grow by `bytes` more.
    pub(in crate::cache) fn is_in_the_way(&mut self, shared: &Shared, bytes: u64) -> bool {
        self.entry.grown = self.entry.grown.saturating_add(bytes);
        let Some(arena) = &self.arena else { return false };
        let seen = self.entry.seen;
        let beside = seen.extra + seen.larger + seen.blocked;
        if beside == 0 && self.is_enough(shared, arena.bytes, bytes) {
            return false;
        }
        let is_off = beside >= FEW && beside * BESIDE > self.cursor.served() - self.entry.served_before;
        self.entry.grown > arena.bytes / if is_off { GROWTH_OFF } else { GROWTH }
    }

    /// Whether the block and what is in use beside it, with `bytes` more, are hardly more than was ever in use at once.
    fn is_enough(&self, shared: &Shared, block: u64, bytes: u64) -> bool {
        let (beside, demand) = (shared.counters.busy_bytes.get(), shared.counters.demand.get());
        block.saturating_add(beside).saturating_add(bytes) <= demand + demand / KNOWN
    }

    /// Whether the plan had less than half of its block in use in a number of entries: it has learned from others.
    pub(super) fn is_oversized(&mut self) -> bool {
        self.look_in = self.look_in.saturating_sub(1);
        if self.look_in > 0 {
            return false;
        }
        (self.look_in, self.room) = (LOOK_IN, 0);
        // What goes beside the plan since it outlived its entry may have done so only once.
        if self.entry.aside > 0 && self.plans.may_change() {
            self.curiosity.wonder();
        }
        std::mem::take(&mut self.peak) < self.plans.need() / 2
    }

    /// Whether the block and what is needed beside it are more than was ever in use at once: where much outlives its
    /// entry, less is needed without a plan.
    pub(super) fn is_wasteful(&self, shared: &Shared) -> bool {
        let (needed, demand) = (shared.counters.expected(), shared.counters.demand.get());
        self.arena.is_some() && self.entry.aside > 0 && needed > demand + demand / WASTE + LITTLE
    }
}
