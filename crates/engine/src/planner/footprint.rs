//! How much memory an arena may take: when pages had better move, when the arena is in the way of others, when it is more than
//! need be, and when the range is looked at for what is free in it.

use super::Planner;
use super::backoff::{Backoff, Pace};
use super::fate::BESIDE;
use crate::base::amounts::total;
use crate::home::{Counter, Shared};

/// How much of the arena was in use, and how the range grows beside it.
#[derive(Default)]
pub(super) struct Footprint {
    /// The most bytes that the plan had in use at once since it was laid out or looked at.
    pub(super) peak: u64,
    /// Entries until that is looked at.
    look_in: u32,
    /// The peak at the last look, and how many looks found no more than the one before.
    last_peak: u64,
    stays: u32,
    /// Whether there ever was an arena.
    pub(super) has_planned: bool,
    /// Waits before pages move again for an entry without a plan.
    pub(super) moving: Backoff,
}

/// When the range is looked at, which may hold more than is needed.
#[derive(Default)]
pub(super) struct Trimming {
    /// Entries that went by the plan: only those say that the arena is enough, and only they are waited for. All entries, while there is
    /// spare memory.
    entries: u64,
    /// How many of them were before this arena, and how many bytes it has.
    before: u64,
    bytes: u64,
    waits: Backoff,
    /// So many looks at the range are left, without an arena, since a ring or the last plan was given up.
    spare_looks: u32,
    /// How many times in a row an arena of so many bytes was lost early.
    losses: u32,
    /// How often the range had something freed at the last look, and the scope taken memory from the device by then.
    pub(super) frees: Option<u64>,
    taken: u64,
}

/// So few allocations beside the plan say nothing of it.
const TOO_FEW: u64 = 8;
/// In an entry that goes by its plan the range may grow by this share of the arena before the arena itself is used: little
/// against the tenth that a range reserves beyond what is alive, and enough for the odd array.
const GROWTH: u64 = 64;
/// In an entry that does not, the range may grow by less: the arena serves it badly, and what it holds is missing elsewhere. Without
/// this, `gpt2_varlen` reserves 1.030 of its live peak while it learns, and 1.014 with it.
const GROWTH_OFF: u64 = 512;
/// In an entry that goes by its plan throughout, the arena stays as long as it and what is in use beside it are at most this share
/// more than was ever in use at once: the range would have to grow all the same.
const KNOWN: u64 = 32;
/// An arena that served for so many entries was not lost early: there were eight looks at the range in that time.
const LONG: u64 = 256;
/// A scope that learns loses fewer arenas in a row: where a random third of 32 arrays outlives each entry, it loses more than 16.
const MANY_LOSSES: u32 = 128;
/// Looks at the range without an arena, over 15 entries. A range without a plan grows again if it is trimmed more often.
const SPARE_LOOKS: u32 = 4;
/// Entries between two looks at how much of a plan is in use: more than orders that take turns.
const PEAK_LOOK_IN: u32 = 16;
/// So many looks that find less than half of the plan in use have it forgotten where sizes grow, if they find no growth: one look
/// sees that another text begins, which may become as long as the last one.
const STAYS: u32 = 2;
/// A plan may need this share more memory than all that was ever in use at once, as a range does that reserves up to 1.1 times what
/// is alive.
const WASTE: u64 = 10;
/// Places for sizes that are yet to come may take this share of what was ever in use at once: as much as the arena of an order
/// may be larger than its largest entry.
const AHEAD: u64 = 32;
/// So many bytes more are not worth another layout: half a page of a GPU's memory.
const LITTLE: u64 = 1 << 20;

impl Footprint {
    /// Another layout is in use from now on.
    pub(super) fn begin_anew(&mut self) {
        (self.peak, self.look_in) = (0, PEAK_LOOK_IN);
    }

    /// Whether it is to be looked at after this entry how much of a plan is in use.
    pub(super) fn is_due(&self) -> bool {
        self.look_in <= 1
    }

    /// Whether the plan's peak did not grow from look to look lately.
    fn has_stayed(&mut self) -> bool {
        let last = std::mem::replace(&mut self.last_peak, self.peak);
        self.stays = if self.peak > last { 0 } else { self.stays.saturating_add(1) };
        self.stays >= STAYS
    }

    /// An entry went by, after which that is not to be looked at.
    pub(super) fn count_down(&mut self) {
        self.look_in -= 1;
    }

    /// How many bytes a plan may be larger than it need be by now, so that sizes which grow find their places in entries to come.
    pub(super) fn ahead(shared: &Shared) -> u64 {
        shared.counters.get(Counter::Demand) / AHEAD + LITTLE
    }
}

impl Trimming {
    /// An arena of so many bytes was found, and memory taken for the scope so often so far. The next look is soon, but not where the same
    /// arena is lost early again and again, as to a scope around this one.
    pub(super) fn renew(&mut self, bytes: u64, taken: u64) {
        let was_lost_early = bytes == self.bytes && self.entries - self.before < LONG;
        self.losses = if was_lost_early { self.losses.saturating_add(1) } else { 0 };
        self.spare_looks = 0;
        self.look_soon(taken);
        (self.bytes, self.before) = (bytes, self.entries);
    }

    /// A ring or the last plan was given up. The range has their memory now, which may be more than is needed.
    pub(super) fn note_spare(&mut self, taken: u64) {
        self.spare_looks = SPARE_LOOKS;
        self.look_soon(taken);
    }

    fn look_soon(&mut self, taken: u64) {
        if self.losses < MANY_LOSSES {
            (self.waits, self.frees, self.taken) = (Backoff::default(), None, taken);
        }
    }

    /// Whether the range is looked at though no plan serves.
    pub(super) fn has_spare(&self) -> bool {
        self.spare_looks > 0
    }

    /// An entry went by the plan. Whether the range is to be looked at now.
    pub(super) fn is_due(&mut self) -> bool {
        self.entries = self.entries.saturating_add(1);
        self.waits.is_over(self.entries)
    }

    /// The range was looked at: waits longer before the next time, and much longer if the range has grown since the last time.
    pub(super) fn looked(&mut self, frees: u64, taken: u64) {
        let has_grown = std::mem::replace(&mut self.taken, taken) != taken;
        self.spare_looks = self.spare_looks.saturating_sub(1);
        // The wait begins with the next entry.
        self.waits.tried(self.entries.saturating_add(1), if has_grown { Pace::STEEP } else { Pace::DOUBLING });
        self.frees = Some(frees);
    }
}

impl Planner {
    /// Whether the range had better move pages than grow: a plan has shown what is enough, for this entry or lately.
    pub(crate) fn had_better_move(&mut self) -> bool {
        let Footprint { has_planned, moving, .. } = &mut self.footprint;
        let is_lately = *has_planned && moving.try_now(self.entry.number, Pace::STEEP);
        self.entry.is_planned || is_lately
    }

    /// Whether the range had better have the arena than grow by `bytes` more.
    pub(crate) fn is_in_the_way(&mut self, shared: &Shared, bytes: u64) -> bool {
        self.entry.grown = self.entry.grown.saturating_add(bytes);
        let Some(arena) = &self.arena else { return false };
        let seen = self.entry.seen;
        let beside = seen.extra + seen.larger + seen.blocked;
        // What outgrew its place is taken for an extra allocation at first.
        if (beside == 0 || self.plans.grows()) && self.is_enough(shared, arena.bytes, bytes) {
            return false;
        }
        let served = self.hot.cursor.served() + self.carry.served() - self.entry.served_before;
        let is_off = beside >= TOO_FEW && beside * BESIDE > served;
        self.entry.grown > arena.bytes / if is_off { GROWTH_OFF } else { GROWTH }
    }

    /// Whether the arena and what is in use beside it, with `bytes` more, are hardly more than was ever in use at once, but for places of
    /// sizes to come.
    fn is_enough(&self, shared: &Shared, arena: u64, bytes: u64) -> bool {
        let (beside, demand) = (shared.counters.get(Counter::BusyBytes), shared.counters.get(Counter::Demand));
        let ahead = if self.plans.grows() { Footprint::ahead(shared) } else { 0 };
        arena.saturating_add(beside).saturating_add(bytes) <= total([demand, demand / KNOWN, ahead])
    }

    /// Whether less memory will do than the arena and what goes beside it.
    pub(super) fn takes_too_much(&mut self, shared: &Shared) -> bool {
        self.is_oversized() || self.is_wasteful(shared)
    }

    /// Whether the plan had less than half of its arena in use in a number of entries: it has learned from others.
    fn is_oversized(&mut self) -> bool {
        self.footprint.look_in = self.footprint.look_in.saturating_sub(1);
        if self.footprint.look_in > 0 {
            return false;
        }
        (self.footprint.look_in, self.hot.room) = (PEAK_LOOK_IN, 0);
        let has_stayed = self.footprint.has_stayed();
        // What goes beside the plan since it outlived its entry may have done so only once.
        if self.entry.aside > 0 && self.plans.may_change() {
            self.learning.curiosity.record_next();
        }
        let is_half_idle = std::mem::take(&mut self.footprint.peak) < self.plans.need() / 2;
        is_half_idle && (has_stayed || !self.plans.grows())
    }

    /// Whether the arena and what is needed beside it are more than was ever in use at once: where much outlives its
    /// entry, less is needed without a plan.
    fn is_wasteful(&self, shared: &Shared) -> bool {
        let (idle, demand) = (self.carry.idle_bytes(shared), shared.counters.get(Counter::Demand));
        let needed = shared.counters.expected().saturating_sub(idle);
        self.arena.is_some() && self.entry.aside > 0 && needed > total([demand, demand / WASTE, LITTLE])
    }
}

#[cfg(test)]
mod tests {
    use super::{MANY_LOSSES, Trimming};

    /// The entries of 1,000 after which the range is looked at, if an arena serves so many entries before another one is found.
    fn looks(arena: u64) -> Vec<u64> {
        let mut trimming = Trimming::default();
        let looks = (0..1000).filter(|entry| {
            if entry % arena == 0 {
                trimming.renew(100, 0);
            }
            let is_due = trimming.is_due();
            if is_due {
                trimming.looked(0, 0);
            }
            is_due
        });
        looks.collect()
    }

    #[test]
    fn a_look_is_soon_after_an_arena_that_stays_and_rare_where_arenas_come_and_go() {
        assert_eq!(looks(1000), [0, 2, 6, 14, 30, 62, 126, 254, 510]);
        let late = looks(1).into_iter().filter(|&entry| entry > u64::from(MANY_LOSSES)).count();
        assert!(late < 10, "{late} looks where each entry has an arena of its own");
        assert_eq!(looks(500), [0, 2, 6, 14, 30, 62, 126, 254, 500, 502, 506, 514, 530, 562, 626, 754]);
        let mut trimming = Trimming::default();
        for bytes in 1..10 {
            trimming.renew(bytes, 0);
            assert!(trimming.is_due(), "another arena");
            trimming.looked(0, 0);
            assert!(!trimming.is_due());
        }
    }
}
