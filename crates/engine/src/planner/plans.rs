//! The plans of a scope: one for each order that its entries have had, up to a fixed number.
//!
//! Invariants:
//!
//! - `active` and `last` are places of plans, if there are any plans.
//! - The caller has the cursor of the active plan, and passes it to each method that needs it. Every other plan has its cursor in
//!   its own field `cursor`.
//! - Nothing is alive in a plan that is not active.
//! - A plan has a cursor only together with its draft, since only then the arena is large enough for it.

mod branches;
mod firsts;
mod layouts;
mod partial;
mod predict;
mod repeats;

use super::carry::CarryPlan;
use super::draft::Draft;
use crate::device::Stream;
use crate::home::{Counter, Counters};
use gpucache_plan::entries::{Cursor, Envelope, Growth, Log};
use gpucache_plan::loops::Known;
use hashbrown::HashMap;

#[derive(Default)]
pub(super) struct Plans {
    plans: Vec<Plan>,
    active: usize,
    /// The plan that the last entry followed.
    last: usize,
    /// The stream of all positions.
    stream: Option<Stream>,
    /// Whether the last entry that taught a plan began with an allocation on another stream.
    pub(super) begin_elsewhere: bool,
}

#[derive(Default)]
struct Plan {
    /// The common envelope of all entries of this order.
    seen: Envelope,
    /// The common envelope with the sizes that the first allocation of a larger entry told, until a recorded entry shows them.
    scaled: Option<Envelope>,
    /// The envelope from which the layout was made.
    envelope: Envelope,
    /// `None` until the plan is laid out.
    draft: Option<Draft>,
    /// `None` while the plan is active.
    cursor: Option<Cursor>,
    /// The last sizes of first allocations in entries that followed it.
    firsts: [u64; firsts::KEPT],
    /// For each plan, how often an entry followed it right after an entry of this plan.
    next: [u32; PLANS],
    /// For each plan, how many of the first positions have the same places in it and in this one.
    alike: [u32; PLANS],
    /// Below 0, the plan serves nothing well.
    score: i32,
    /// The number of positions that have been too small since the layout.
    widened: u64,
    carry: CarryPlan,
    /// Positions whose array was found once to have outlived its entry, and the entry.
    escaped: HashMap<usize, u64>,
    /// The bound of the envelope when it was laid out.
    need: u64,
    /// The last entry that followed this plan.
    used: u64,
    /// If the plan is that of a loop: the allocations of an iteration, and the windows that tell where the loop is.
    repeats: Option<(u32, Known)>,
}

/// The most orders for which a scope has plans at one time. A training on batches of several sizes may have as many, since other sizes take
/// other kernels and temporary arrays. A plan takes some 100 bytes for each position. Each recorded entry is compared with all plans.
const PLANS: usize = 8;
/// If no entry followed a plan in this many entries, a plan for another stream may replace it. Two streams that take turns follow it in
/// every second entry.
const IN_USE: u64 = 4;
/// A plan gets a new layout once one in this many positions has been too small. Until then, the requests of these positions go
/// beside the plan.
const WIDENED: u64 = 16;
/// A room of a partial plan goes once an array in it outlives its entry twice within so many entries, since each time costs the arena. Of the many
/// arrays in a room, one may do so now and then: a recorded segmentation lost half of its plan for two entries of 50. The number was chosen.
const OFTEN: u64 = 8;
/// A new plan is forgotten once it served more than this many entries more badly than well.
const FIRST_SCORE: i32 = 4;
/// A plan at the best score is forgotten after more than this many bad entries in a row.
const BEST_SCORE: i32 = 2 * FIRST_SCORE;

/// A room that was too small gets this share, 1/64, more than it needed, so that few entries lay it out.
const ROOM_AHEAD: u64 = 64;

impl Plans {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    pub(super) fn active(&self) -> usize {
        self.active
    }

    pub(crate) fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref().filter(|_| !self.is_empty())
    }

    /// Makes all plans serve another stream. Returns the one before. Nothing may be alive in them, and they have no arena.
    pub(super) fn move_to(&mut self, stream: Stream) -> Option<Stream> {
        self.stream.replace(stream)
    }

    /// Whether a first allocation of so many bytes on another stream tells that the entry is on that stream.
    pub(super) fn may_follow_first(&self, bytes: u64) -> bool {
        let is_first = |plan: &Plan| plan.draft.is_some() && plan.known().begins_with(bytes);
        !self.begin_elsewhere && self.plans.iter().any(is_first)
    }

    /// Whether an entry followed a plan not long before the entry of this number.
    pub(super) fn are_in_use(&self, entry: u64) -> bool {
        self.plans.iter().any(|plan| plan.used + IN_USE > entry)
    }

    /// The envelope of the active plan.
    pub(crate) fn envelope(&self) -> Option<&Envelope> {
        self.plans.get(self.active).map(|plan| &plan.envelope)
    }

    /// The bytes of a block that is large enough for each plan.
    pub(crate) fn bytes(&self) -> u64 {
        self.drafts().map(|draft| draft.layout.height).max().unwrap_or(0)
    }

    /// The most bytes that the active plan has in use at once if each position takes its largest size.
    pub(crate) fn need(&self) -> u64 {
        self.plans.get(self.active).map_or(0, |plan| plan.need)
    }

    /// Whether a plan has a layout.
    pub(super) fn are_laid_out(&self) -> bool {
        self.drafts().next().is_some()
    }

    /// Whether sizes of the active plan grow from entry to entry.
    pub(super) fn grows(&self) -> bool {
        self.plans.get(self.active).is_some_and(|plan| plan.seen.grows())
    }

    /// The arrays that the plans carry. Plans that take turns have no common turns of the ring.
    pub(super) fn carry(&self) -> CarryPlan {
        if let [only] = self.plans.as_slice() {
            return only.carry.clone();
        }
        let carry = || self.plans.iter().map(|plan| &plan.carry).filter(|carry| carry.largest > 0);
        let largest = carry().map(|carry| carry.largest).max().unwrap_or(0);
        let are_alike = carry().all(|carry| carry.are_alike && carry.largest == largest);
        CarryPlan { largest, are_alike, ..CarryPlan::default() }
    }

    /// The number of positions of the longest plan.
    pub(crate) fn positions(&self) -> u64 {
        self.drafts().map(|draft| draft.positions).max().unwrap_or(0)
    }

    /// The draft of the plan that the last entry followed.
    #[cfg(feature = "tracing")]
    pub(super) fn last_draft(&self) -> Option<&Draft> {
        self.plans.get(self.last).and_then(|plan| plan.draft.as_ref())
    }

    fn drafts(&self) -> impl Iterator<Item = &Draft> {
        self.plans.iter().filter_map(|plan| plan.draft.as_ref())
    }

    /// Whether the first allocation of an entry tells that the sizes of the active plan are too small.
    pub(super) fn may_scale_to(&self, bytes: u64) -> bool {
        let is_new = |plan: &&Plan| !plan.known().begins_with(bytes);
        self.plans.get(self.active).filter(is_new).is_some_and(|plan| plan.seen.may_scale_to(bytes))
    }

    /// Whether the first allocation of an entry tells that its sizes are smaller than those of the active plan.
    pub(super) fn may_shrink_to(&self, bytes: u64) -> bool {
        self.plans.get(self.active).is_some_and(|plan| plan.known().may_shrink_to(bytes))
    }

    /// Makes the active plan hold an entry whose first allocation has this many bytes. Its layout is made later.
    pub(super) fn scale_to(&mut self, bytes: u64) {
        if let Some(plan) = self.plans.get_mut(self.active)
            && let Some(scaled) = plan.seen.scaled_to(bytes)
        {
            // What was told is not yet seen: it must not be the base of what is told next.
            (plan.scaled, plan.draft, plan.cursor) = (Some(scaled), None, None);
        }
    }

    /// Makes another plan active, if it has a layout.
    fn activate(&mut self, next: usize, cursor: &mut Cursor) -> bool {
        let Some(mut new) = self.plans.get_mut(next).and_then(|plan| plan.cursor.take()) else { return false };
        new.count_on(cursor);
        let old = std::mem::replace(cursor, new);
        if let Some(plan) = self.plans.get_mut(self.active).filter(|plan| plan.cursor.is_none()) {
            plan.cursor = Some(old);
        }
        self.active = next;
        true
    }

    /// Scores the active plan by an entry that it served. Returns whether the plan is of no use.
    pub(crate) fn score(&mut self, goes_by_plan: bool) -> bool {
        let Some(plan) = self.plans.get_mut(self.active) else { return false };
        plan.score = if goes_by_plan { BEST_SCORE.min(plan.score + 1) } else { plan.score - 1 };
        plan.score < 0
    }

    /// A plan that the entry of this log followed, or would have followed if the plan had been active.
    pub(super) fn that_holds(&self, log: &Log) -> Option<usize> {
        if self.stream().is_none_or(|stream| stream.id() != log.stream()) {
            return None;
        }
        let holds = |&place: &usize| self.plans.get(place).is_some_and(|plan| plan.seen.holds(log));
        std::iter::once(self.active).chain(0..self.plans.len()).find(holds)
    }

    /// Whether entries may still change which positions of the active plan are carried.
    pub(crate) fn may_change(&self) -> bool {
        self.plans.get(self.active).is_some_and(|plan| plan.seen.may_change())
    }

    /// Whether the active plan has to hold more than it was laid out for.
    pub(super) fn is_outgrown(&self) -> bool {
        self.plans.get(self.active).is_some_and(Plan::is_outgrown)
    }

    /// Notes that the room at a position of the active plan needs so many bytes. The plan is laid out anew as soon as nothing is alive.
    pub(crate) fn widen_room(&mut self, position: usize, bytes: u64) {
        self.widen_soon(position, bytes.saturating_add(bytes / ROOM_AHEAD));
    }

    /// Notes that a position of the active plan needs more bytes, and gets another place for them before the next entry.
    pub(crate) fn widen_soon(&mut self, position: usize, bytes: u64) {
        self.widen(position, bytes);
        if let Some(plan) = self.plans.get_mut(self.active) {
            plan.widened = plan.envelope.len() as u64;
        }
    }

    /// Notes that a position of the active plan needs more bytes.
    pub(crate) fn widen(&mut self, position: usize, bytes: u64) {
        if let Some(plan) = self.plans.get_mut(self.active) {
            plan.seen.widen(position, bytes);
            if let Some(scaled) = &mut plan.scaled {
                scaled.widen(position, bytes);
            }
            plan.widened += u64::from(plan.envelope.widen(position, bytes));
        }
    }

    /// Notes that arrays of these positions outlived their place. From the second time on, the position's arrays are carried, if a
    /// ring suits them. [`relayout`](Plans::relayout) makes the layout without them, once nothing is alive.
    pub(super) fn carry_escaped(&mut self, positions: impl Iterator<Item = usize>) {
        let Some(plan) = self.plans.get_mut(self.active) else { return };
        let Plan { escaped, seen, used, .. } = plan;
        let recently = |position: usize, entry: u64| !seen.has_room(position) || entry + OFTEN >= *used;
        let is_again = |position: &usize| escaped.get(position).is_some_and(|&entry| recently(*position, entry));
        let (again, once): (Vec<usize>, Vec<usize>) = positions.partition(is_again);
        escaped.extend(once.into_iter().map(|position| (position, *used)));
        if again.is_empty() {
            return;
        }
        let mut seen = plan.seen.clone();
        let changed = again.into_iter().filter(|&position| seen.carry(position)).count();
        // If no ring suits them, the positions keep their places, since their arrays may have outlived their entry by chance.
        if changed > 0 && seen.suits_a_ring() {
            plan.hold(seen);
        }
    }

    /// Widens a plan to hold this entry too, if one has the entry's order. Returns the plan's place.
    pub(crate) fn absorb(&mut self, log: &Log) -> Option<usize> {
        self.stream().filter(|stream| stream.id() == log.stream())?;
        for (place, plan) in self.plans.iter_mut().enumerate() {
            if let Some(both) = plan.seen.absorb(log) {
                plan.hold(both);
                return Some(place);
            }
        }
        None
    }

    /// Notes in a plan whether the first allocation of a recorded entry that it served told the sizes of the others.
    pub(super) fn note_told(&mut self, plan: usize, log: &Log) {
        if let Some(plan) = self.plans.get_mut(plan) {
            plan.seen.note_told(log);
        }
    }

    /// Notes in a plan which sizes grew in an entry that followed it.
    pub(super) fn note_growth(&mut self, plan: usize, growth: &Growth) {
        if let Some(plan) = self.plans.get_mut(plan) {
            plan.seen.note_growth(growth);
        }
    }

    /// Makes a plan of an envelope, or widens a plan of the same order to hold it. Returns the plan's place.
    /// [`relayout`](Plans::relayout) makes the layout.
    pub(crate) fn add(&mut self, envelope: Envelope, stream: Stream, entry: u64) -> usize {
        self.stream.get_or_insert(stream);
        for (place, plan) in self.plans.iter_mut().enumerate() {
            if let Some(both) = plan.seen.merge(&envelope) {
                plan.hold(both);
                return place;
            }
        }
        let mut envelope = envelope;
        if self.plans.iter().any(|plan| plan.seen.is_told_by_first()) {
            envelope.trust_first();
        }
        let plan = Plan { seen: envelope.clone(), envelope, score: FIRST_SCORE, used: entry, ..Plan::default() };
        if self.plans.len() < PLANS {
            self.plans.push(plan);
            return self.plans.len() - 1;
        }
        let others = (0..PLANS).filter(|&place| place != self.active);
        let place = others.min_by_key(|&place| self.plans[place].used).unwrap_or(0);
        self.plans.iter_mut().for_each(|plan| (plan.next[place], plan.alike[place]) = (0, 0));
        self.plans[place] = plan;
        place
    }

    /// Whether there is a layout to make, now or later.
    pub(super) fn has_open_layouts(&self) -> bool {
        self.plans.iter().any(Plan::is_outgrown)
    }

    /// Forgets the active plan. Nothing may be alive in it.
    pub(super) fn remove_active(&mut self, cursor: &mut Cursor) {
        if self.is_empty() {
            return;
        }
        self.remove(self.active);
        (self.active, self.last) = (0, 0);
        let mut new = self.plans.first_mut().and_then(|plan| plan.cursor.take()).unwrap_or_default();
        new.count_on(cursor);
        *cursor = new;
    }

    /// Forgets all plans, and returns their stream. Nothing may be alive in them.
    pub(crate) fn clear(&mut self, cursor: &mut Cursor) -> Option<Stream> {
        let mut none = Cursor::default();
        none.count_on(cursor);
        *cursor = none;
        self.plans.clear();
        (self.active, self.last) = (0, 0);
        self.stream.take()
    }

    /// Publishes the number and sizes of the plans.
    pub(crate) fn tell(&self, counters: &Counters) {
        let highest = self.drafts().max_by_key(|draft| draft.layout.height);
        counters.set(Counter::Plans, self.plans.len() as u64);
        counters.set(Counter::Positions, self.drafts().map(|draft| draft.positions).sum());
        counters.set(Counter::PlanBytes, self.bytes());
        counters.set(Counter::BoundBytes, highest.map_or(0, |draft| draft.bound));
    }
}

impl Plan {
    /// Makes the plan hold more. Its layout is made once nothing is alive. Until then entries may follow the one before, so the arena stays as
    /// large as that needs.
    fn hold(&mut self, envelope: Envelope) {
        (self.seen, self.scaled, self.widened) = (envelope, None, self.envelope.len() as u64);
    }

    /// The envelope of this plan alone, without what it has in common with others.
    fn known(&self) -> &Envelope {
        self.scaled.as_ref().unwrap_or(&self.seen)
    }

    /// Whether the plan has to hold more than it was laid out for.
    fn is_outgrown(&self) -> bool {
        let is_wider = self.widened * WIDENED > self.envelope.len() as u64;
        self.draft.is_none() || is_wider || self.seen.is_overtaken()
    }
}
