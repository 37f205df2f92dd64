//! How much memory an arena may take. Decides when pages should move, when the arena is in the way of others, and when it is larger
//! than necessary.

use super::Planner;
use super::arena::Arena;
use super::backoff::{Backoff, Pace};
use super::fate::BESIDE;
use crate::base::amounts::total;
use crate::device::Stream;
use crate::home::{Counter, Shared};
use crate::range::DeviceRange;

/// How much of the arena was in use, and how the range grows beside it.
#[derive(Default)]
pub(super) struct Footprint {
    /// The most bytes that the plan had in use at once since it was laid out or looked at.
    pub(super) peak: u64,
    /// Entries until the next look at this peak.
    pub(super) look_in: u32,
    /// The peak at the last look.
    last_peak: u64,
    /// How many looks in a row found no higher peak than the look before.
    stays: u32,
    /// Whether the scope ever had an arena.
    pub(super) has_planned: bool,
    /// Waits before pages move again for an entry without a plan.
    pub(super) moving: Backoff,
}

/// With at most this many allocations beside the plan, nothing is known about the plan.
const TOO_FEW: u64 = 8;
/// In an entry that goes by its plan, the range may grow by this share of the arena before the arena itself is given up. This is
/// little beside what a range reserves beyond the live memory (see [`KNOWN_PART`]), and enough for a few odd arrays.
const GROWTH: u64 = 64;
/// As [`GROWTH`], for an entry that its plan serves badly. The arena's memory is then missing elsewhere. This constant lowers the reserved
/// memory of `gpt2_varlen`, while it learns, from 1.030 to 1.014 of its live peak.
const GROWTH_OFF: u64 = 512;
/// The arena also goes if the range would reserve this share more than the scope had in use at once. With 1/32, programs of no scope that
/// train a detector and BERT reserved 1.033 and 1.036 times their live memory; with 1/48, 1.027 and 1.028. With 1/64, a sampled graph network
/// lost its plan for good. The range grows by whole steps: since they count, and not the request alone, BERT and T5 without scopes reserve
/// 1.016 and 1.020 instead of 1.027 and 1.028 times their live memory.
const TOO_MUCH: u64 = 48;
/// An arena that is more than so many times as large as the present plan needs goes at [`TOO_MUCH`] in any case, since most of it is idle. In
/// a recorded run, a language model without a scope had an arena of 1.3 GB while its next answers needed 0.3 GB of it, and reserved 1.076
/// times its live memory; now 1.020 times. With 4/3 instead of 2, a made-up beam search was planned for 0.53 instead of 0.60.
const OTHERS: u64 = 2;
/// Between two iterations of a loop, the arena goes for a request of more than this share of it. A server of prompts reserved 1.075 times its
/// live memory beside such an arena, and 1.025 without. A smaller request would cost the next iteration its plan.
const MUCH: u64 = 16;
/// While a range would grow for an entry that follows its plan throughout, the arena may stay. The limit: arena and memory in use
/// beside it are at most this share more than the peak in use. Below it, the range would have to grow all the same.
const KNOWN: u64 = 32;
/// The same share if only a part of each entry is regular. The arrays beside the arena then differ from entry to entry, and each loss of
/// the arena would leave a part of an entry without a plan. The range alone takes 1/12 more than what is live. With as large a share as the
/// range took before, or 1/64 if that is more, a recorded detector reserved 1.023 instead of 1.058 times its live memory, but the imitated one
/// 1.073 instead of 1.040: it lost its arena in the middle of its steps. With 1/48, the recorded one reserved 1.030, but 54 large random programs
/// were planned for 0.79 instead of 0.84 of their regular parts, and the imitated detector reserved 1.065.
const KNOWN_PART: u64 = 20;
/// The same share if allocations come in one order and only some sizes vary: hardly anything should go beside such a plan. A recorded Mixtral, whose
/// experts get no tokens in some steps, reserved 1.046 times its live memory with [`KNOWN_PART`], 1.024 with 1/64, and 1.016 with 1/128 or 1/256. Small
/// made-up mixtures are planned for 0.98 instead of all of their allocations, and reserve 1.013 instead of 1.017 times their live memory.
const KNOWN_IN_ORDER: u64 = 128;
/// The arena may need this share, 1/128, more than the peak in use for rooms that were too small. With twice as much, a made-up mixture of experts
/// found no arena any more after one array had not fitted: an arena counts as known to be needed up to 1/64 more, of which others use some.
const ROOM: u64 = 128;
/// Entries between two looks at how much of a plan is in use. This is more than the number of orders that take turns.
const PEAK_LOOK_IN: u32 = 16;
/// Where sizes grow, a plan of which less than half is in use is forgotten after this many looks without growth. One look alone may
/// only show that another text begins, which may become as long as the last one.
const STAYS: u32 = 2;
/// A plan may need this share more memory than the peak in use, about as much as a range reserves without plans (see [`KNOWN_PART`]).
const WASTE: u64 = 10;
/// Places for larger sizes to come may take this share of the peak in use. The arena of an order may exceed the order's largest
/// entry by as much.
const AHEAD: u64 = 32;
/// A saving of at most this many bytes is not worth another layout: half a page of a GPU's memory.
const LITTLE: u64 = 1 << 20;

/// An arena of at most this share of the peak in use stays: its memory would not help.
const NEGLIGIBLE: u64 = 64;

impl Footprint {
    /// Begins a new count, since another layout is in use from now on.
    pub(super) fn begin_anew(&mut self) {
        (self.peak, self.look_in) = (0, PEAK_LOOK_IN);
    }

    /// Whether to look after this entry how much of a plan is in use.
    pub(super) fn is_due(&self) -> bool {
        self.look_in <= 1
    }

    /// Whether the plan's peak lately did not grow from look to look. Also notes the peak.
    fn has_stayed(&mut self) -> bool {
        let last = std::mem::replace(&mut self.last_peak, self.peak);
        self.stays = if self.peak > last { 0 } else { self.stays.saturating_add(1) };
        self.stays >= STAYS
    }

    /// How many bytes a plan may now be larger than necessary, so that growing sizes find their places in later entries.
    pub(super) fn ahead(shared: &Shared) -> u64 {
        shared.counters.get(Counter::Demand) / AHEAD + LITTLE
    }
}

impl Planner {
    /// Notes that the range of a device has `live` bytes in use after a request for `bytes` that is not counted as held yet.
    pub(crate) fn note_live(&mut self, shared: &Shared, device: u64, live: u64, bytes: u64) {
        let [busy, held] = [Counter::BusyBytes, Counter::HeldBytes].map(|count| shared.counters.get(count));
        let others = live.saturating_sub(total([held, bytes]));
        let own = total([busy, shared.planned_bytes(), bytes]);
        self.rise.note((device, shared.counters.get(Counter::Entries)), others, own);
    }

    /// How much an entry needs beyond what others have in use when it begins, if that is known. In the first entry it is not: that entry may be
    /// endless.
    pub(crate) fn rise(&self, shared: &Shared) -> Option<u64> {
        let [entries, demand] = [Counter::Entries, Counter::Demand].map(|count| shared.counters.get(count));
        self.rise.of(demand).filter(|_| entries > 1)
    }

    /// Whether the range should move pages rather than grow: a plan showed, in this entry or lately, how much memory is enough. Also notes
    /// the try.
    pub(crate) fn had_better_move(&mut self) -> bool {
        let Footprint { has_planned, moving, .. } = &mut self.footprint;
        let is_lately = *has_planned && moving.try_now(self.entry.number, Pace::STEEP);
        !self.recurring.are_too_many && ((self.entry.is_planned && !self.carry.is_range_used()) || is_lately)
    }

    /// Whether an iteration of a loop has to do without its arena. It leaves the arena's memory in pieces. A server of batches with random sizes
    /// reserved up to 1.35 times its peak, and 1.02 times if pages move whose work is done; a fifth more pages move then. Waits for others
    /// would be too many where most iterations go without an arena.
    pub(crate) fn is_without_arena(&self) -> bool {
        !self.entry.is_planned && self.loops.is_inside() && !self.plans.is_empty() && !self.plans.grows()
    }

    /// Whether the range should get the arena's memory rather than grow by `bytes` bytes. Also notes these bytes.
    pub(super) fn is_in_the_way(&mut self, shared: &Shared, bytes: u64) -> bool {
        self.entry.grown = self.entry.grown.saturating_add(bytes);
        let negligible = shared.counters.get(Counter::Demand) / NEGLIGIBLE;
        let Some(arena) = self.arena.as_ref().filter(|arena| arena.bytes > negligible) else { return false };
        let seen = self.entry.seen;
        let beside = seen.extra + seen.larger + seen.blocked;
        if beside >= TOO_FEW && self.is_idle_in_loop(shared, bytes, arena.bytes) {
            return true;
        }
        self.is_worse_than_growth(shared, arena, (bytes, beside))
    }

    /// Whether the range would reserve too much for `bytes` bytes more, or grew too much for `beside` allocations, if this arena stays.
    fn is_worse_than_growth(&self, shared: &Shared, arena: &Arena, (bytes, beside): (u64, u64)) -> bool {
        let takes_too_much = || self.would_reserve_too_much(shared, &arena.stream, bytes);
        if self.is_for_larger_order(arena.bytes) && takes_too_much() {
            return true;
        }
        let is_enough = self.may_go_beside(beside) && self.is_enough(shared, arena.bytes, bytes);
        !is_enough && (self.has_grown_too_much(beside, arena.bytes) || takes_too_much())
    }

    /// Whether most of an arena of so many bytes is for another order of allocations than the present one.
    fn is_for_larger_order(&self, arena: u64) -> bool {
        self.plans.need() < arena / OTHERS
    }

    /// Whether a range that grows by so many bytes reserves far more than what this scope had in use at once, and what others have in use now.
    fn would_reserve_too_much(&self, shared: &Shared, stream: &Stream, bytes: u64) -> bool {
        let Some(range) = DeviceRange::of(stream) else { return false };
        let state = range.occupancy();
        let [demand, held] = [Counter::Demand, Counter::HeldBytes].map(|count| shared.counters.get(count));
        state.after_growth(bytes) > total([demand, demand / TOO_MUCH, state.live.saturating_sub(held)])
    }

    /// Whether the range has grown too much in this entry beside an arena of so many bytes, with so many allocations beside the plan.
    fn has_grown_too_much(&self, beside: u64, arena: u64) -> bool {
        let served = self.hot.cursor.served() + self.carry.served() - self.entry.served_before;
        let is_off = beside >= TOO_FEW && beside * BESIDE > served;
        self.entry.grown > arena / if is_off { GROWTH_OFF } else { GROWTH }
    }

    /// Whether the arena is that of a loop, nothing in it is alive, and a request needs much of it. Requests between two iterations, such
    /// as those of the next prompt, then get its memory.
    fn is_idle_in_loop(&self, shared: &Shared, bytes: u64, arena: u64) -> bool {
        self.loops.is_inside() && shared.lease.live() == 0 && bytes > arena / MUCH
    }

    /// Whether the arena may become so many bytes larger for a room that was too small. Arrays that do not fit go beside the plan.
    pub(super) fn may_widen_room(&self, shared: &Shared, bytes: u64) -> bool {
        let (beside, demand) = (shared.counters.get(Counter::BusyBytes), shared.counters.get(Counter::Demand));
        total([self.plans.bytes(), bytes, beside]) <= total([demand, demand / ROOM])
    }

    /// Whether so many allocations beside the plan are expected.
    fn may_go_beside(&self, beside: u64) -> bool {
        // A request that outgrew its place counts as an extra allocation at first.
        beside == 0 || self.plans.grows() || self.plans.is_partial()
    }

    /// Whether the arena, the memory in use beside it, and `bytes` more are hardly more than the peak in use. Places for sizes to
    /// come are added to the peak.
    pub(super) fn is_enough(&self, shared: &Shared, arena: u64, bytes: u64) -> bool {
        let (beside, demand) = (shared.counters.get(Counter::BusyBytes), shared.counters.get(Counter::Demand));
        let ahead = if self.plans.grows() { Footprint::ahead(shared) } else { 0 };
        let known = match self.plans.is_partial() {
            false => KNOWN,
            true if self.plans.is_in_order() => KNOWN_IN_ORDER,
            true => KNOWN_PART,
        };
        arena.saturating_add(beside).saturating_add(bytes) <= total([demand, demand / known, ahead])
    }

    /// Whether less memory would do than the arena and the memory beside it. Also notes the look.
    pub(super) fn takes_too_much(&mut self, shared: &Shared) -> bool {
        self.is_oversized() || self.is_wasteful(shared)
    }

    /// Whether less than half of the plan's arena was in use during some entries. The plan has then learned from other entries. Also notes
    /// the look, and begins a new count.
    fn is_oversized(&mut self) -> bool {
        self.footprint.look_in = self.footprint.look_in.saturating_sub(1);
        if self.footprint.look_in > 0 {
            return false;
        }
        (self.footprint.look_in, self.hot.room) = (PEAK_LOOK_IN, 0);
        let has_stayed = self.footprint.has_stayed();
        // Arrays that go beside the plan because they outlived their entry may have done so only once.
        if self.entry.aside > 0 && self.plans.may_change() {
            self.learning.curiosity.record_next();
        }
        let is_half_idle = std::mem::take(&mut self.footprint.peak) < self.plans.need() / 2;
        is_half_idle && (has_stayed || !self.plans.grows())
    }

    /// Whether the arena and the memory needed beside it are more than the peak in use. Where much memory outlives its entry, a
    /// scope needs less without a plan.
    fn is_wasteful(&self, shared: &Shared) -> bool {
        let (idle, demand) = (self.carry.idle_bytes(shared), shared.counters.get(Counter::Demand));
        let expected = total([shared.counters.expected(), shared.counters.get(Counter::Inside)]);
        let needed = expected.saturating_sub(idle);
        self.arena.is_some()
            && self.entry.aside + self.entry.irregular > 0
            && needed > total([demand, demand / WASTE, LITTLE])
    }
}
