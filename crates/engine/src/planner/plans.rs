//! The plans of a scope: one for each order that its entries were seen to have, in bounded number.
//!
//! Invariants: `active` and `last` are plans, if there are any; the cursor of the active one is with the caller, who
//! hands it to each method that needs it, and all others are in `cursor`. Nothing is live in a plan that is not active. A plan
//! that is not active has a cursor only with its draft: the block has room for no other.

use super::carry::CarryPlan;
use super::draft::Draft;
use crate::device::Stream;
use crate::home::{Counter, Counters};
use gpucache_plan::entries::{Cursor, Envelope, Growth, Log, Scratch};

#[derive(Default)]
pub(super) struct Plans {
    plans: Vec<Plan>,
    active: usize,
    /// The plan that the last entry went by.
    last: usize,
    /// The stream of all positions.
    stream: Option<Stream>,
}

#[derive(Default)]
struct Plan {
    /// What entries had in common.
    seen: Envelope,
    /// What its layout was made of.
    envelope: Envelope,
    /// `None` until it is laid out.
    draft: Option<Draft>,
    /// `None` while it is active.
    cursor: Option<Cursor>,
    /// How often which plan was gone by in the entry after one of this kind.
    next: [u32; PLANS],
    /// Below 0 it serves nothing well.
    score: i32,
    /// Positions that were too small since they were laid out.
    widened: u64,
    carry: CarryPlan,
    /// Positions that were once found to have outlived their entry.
    escaped: Vec<usize>,
    /// The envelope's bound when it was laid out.
    need: u64,
    /// The entry that went by it last.
    used: u64,
}

/// Orders that a scope has plans for at one time: training, validation and two more. Each takes some 100 bytes a position, and all
/// are tried when an entry is recorded.
const PLANS: usize = 4;
/// A layout is made anew when one of so many positions was too small since the last one. Until then those go beside the plan.
const WIDENED: u64 = 16;
/// Counts of what followed what are halved at this one, so that the last ten entries or so decide.
const MOST_FOLLOWED: u32 = 8;
/// A new plan is forgotten once it served this many entries worse than well.
const FIRST_SCORE: i32 = 4;
/// A plan that has proved itself is forgotten after twice as many.
const BEST_SCORE: i32 = 2 * FIRST_SCORE;

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

    /// The active plan's.
    pub(crate) fn envelope(&self) -> Option<&Envelope> {
        self.plans.get(self.active).map(|plan| &plan.envelope)
    }

    /// Bytes of a block that holds any of the plans.
    pub(crate) fn bytes(&self) -> u64 {
        self.drafts().map(|draft| draft.layout.height).max().unwrap_or(0)
    }

    /// The most bytes that the active plan has in use at once if each position takes all that it may.
    pub(crate) fn need(&self) -> u64 {
        self.plans.get(self.active).map_or(0, |plan| plan.need)
    }

    /// Whether there is a layout to serve by.
    pub(super) fn are_laid_out(&self) -> bool {
        self.drafts().next().is_some()
    }

    /// Whether sizes of the active plan grow from entry to entry.
    pub(super) fn grows(&self) -> bool {
        self.plans.get(self.active).is_some_and(|plan| plan.seen.grows())
    }

    /// What the plans carry. Several that take turns have no turns in common.
    pub(super) fn carry(&self) -> CarryPlan {
        let largest = self.plans.iter().map(|plan| plan.carry.largest).max().unwrap_or(0);
        match self.plans.as_slice() {
            [only] => only.carry.clone(),
            _ => CarryPlan { largest, ..CarryPlan::default() },
        }
    }

    /// Positions of the longest plan.
    pub(crate) fn positions(&self) -> u64 {
        self.drafts().map(|draft| draft.positions).max().unwrap_or(0)
    }

    /// How the plan lies that the last entry went by.
    #[cfg(feature = "tracing")]
    pub(super) fn last_draft(&self) -> Option<&Draft> {
        self.plans.get(self.last).and_then(|plan| plan.draft.as_ref())
    }

    fn drafts(&self) -> impl Iterator<Item = &Draft> {
        self.plans.iter().filter_map(|plan| plan.draft.as_ref())
    }

    /// Makes the plan active that the next entry is likely to go by.
    pub(super) fn predict(&mut self, cursor: &mut Cursor) {
        let Some(last) = self.plans.get(self.last) else { return };
        // The active one, where others were not gone by more often.
        let likely = (0..self.plans.len()).max_by_key(|&place| (last.next[place], place == self.active));
        if let Some(likely) = likely.filter(|&likely| likely != self.active) {
            let _ = self.activate(likely, cursor);
        }
    }

    /// Goes by another plan if that one expects this first allocation of an entry, and the active one does not. Nothing is
    /// live.
    pub(super) fn switch_by_first_event(&mut self, cursor: &mut Cursor, bytes: u64) -> bool {
        let expects = |plan: &Plan| plan.envelope.begins_with(bytes);
        if self.plans.get(self.active).is_some_and(expects) {
            return false;
        }
        let other = self.plans.iter().position(expects);
        other.is_some_and(|other| self.activate(other, cursor))
    }

    /// Goes by another plan from now on, if that has a layout.
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

    /// The entry that ends went by this plan.
    pub(super) fn note_followed(&mut self, plan: usize, entry: u64) {
        if let Some(count) = self.plans.get_mut(self.last).and_then(|last| last.next.get_mut(plan)) {
            *count += 1;
            if *count == MOST_FOLLOWED {
                self.plans[self.last].next.iter_mut().for_each(|count| *count /= 2);
            }
        }
        self.last = plan;
        if let Some(plan) = self.plans.get_mut(plan) {
            plan.used = entry;
        }
    }

    /// Scores the active plan by an entry that it served. Returns whether it is of no use.
    pub(crate) fn score(&mut self, goes_by_plan: bool) -> bool {
        let Some(plan) = self.plans.get_mut(self.active) else { return false };
        plan.score = if goes_by_plan { BEST_SCORE.min(plan.score + 1) } else { plan.score - 1 };
        plan.score < 0
    }

    /// A plan that an entry went by, or would have if it had been active.
    pub(super) fn that_holds(&self, log: &Log) -> Option<usize> {
        if self.stream().is_none_or(|stream| stream.id() != log.stream()) {
            return None;
        }
        let holds = |&place: &usize| self.plans.get(place).is_some_and(|plan| plan.seen.holds(log));
        std::iter::once(self.active).chain(0..self.plans.len()).find(holds)
    }

    /// Whether it may still change what the active plan has a place for.
    pub(crate) fn may_change(&self) -> bool {
        self.plans.get(self.active).is_some_and(|plan| plan.seen.may_change())
    }

    /// Whether the active plan has to hold more than it was laid out for.
    pub(super) fn is_outgrown(&self) -> bool {
        self.plans.get(self.active).is_some_and(Plan::is_outgrown)
    }

    /// Remembers that a position of the active plan needs more bytes.
    pub(crate) fn widen(&mut self, position: usize, bytes: u64) {
        if let Some(plan) = self.plans.get_mut(self.active) {
            plan.seen.widen(position, bytes);
            plan.widened += u64::from(plan.envelope.widen(position, bytes));
        }
    }

    /// Has those of these positions carried from now on that outlived their place for the second time, if a ring suits them. The layout
    /// without them follows by [`relayout`](Plans::relayout), once nothing is live.
    pub(super) fn carry_escaped(&mut self, positions: impl Iterator<Item = usize>) {
        let Some(plan) = self.plans.get_mut(self.active) else { return };
        let (again, once): (Vec<usize>, Vec<usize>) = positions.partition(|position| plan.escaped.contains(position));
        plan.escaped.extend(once);
        if again.is_empty() {
            return;
        }
        let mut seen = plan.seen.clone();
        let changed = again.into_iter().filter(|&position| seen.carry(position)).count();
        // Where a ring would not have it either, what outlived its entry may have done so once.
        if changed > 0 && seen.suits_a_ring() {
            (plan.seen, plan.draft) = (seen, None);
        }
    }

    /// Lets a plan hold an entry too, if that has its order, and returns its place.
    pub(crate) fn absorb(&mut self, log: &Log, scratch: &mut Scratch) -> Option<usize> {
        self.stream().filter(|stream| stream.id() == log.stream())?;
        for (place, plan) in self.plans.iter_mut().enumerate() {
            if let Some(both) = plan.seen.absorb(log, scratch) {
                plan.hold(both);
                return Some(place);
            }
        }
        None
    }

    /// Tells a plan what grew in the entry that went by it.
    pub(super) fn note_growth(&mut self, plan: usize, growth: &Growth) {
        if let Some(plan) = self.plans.get_mut(plan) {
            plan.seen.note_growth(growth);
        }
    }

    /// Makes a plan of an envelope, or lets one of the same order hold it too, and returns its place. Its layout follows by
    /// [`relayout`](Plans::relayout).
    pub(crate) fn add(&mut self, envelope: Envelope, stream: Stream, entry: u64) -> usize {
        self.stream.get_or_insert(stream);
        for (place, plan) in self.plans.iter_mut().enumerate() {
            if let Some(both) = plan.seen.merge(&envelope) {
                plan.hold(both);
                return place;
            }
        }
        let plan = Plan { seen: envelope.clone(), envelope, score: FIRST_SCORE, used: entry, ..Plan::default() };
        if self.plans.len() < PLANS {
            self.plans.push(plan);
            return self.plans.len() - 1;
        }
        let others = (0..PLANS).filter(|&place| place != self.active);
        let place = others.min_by_key(|&place| self.plans[place].used).unwrap_or(0);
        self.plans.iter_mut().for_each(|plan| plan.next[place] = 0);
        self.plans[place] = plan;
        place
    }

    /// Lays out what has no layout, has to hold more than before, or can be laid out lower. Nothing is live. Returns
    /// whether there was any. Where sizes grow, `ahead` more bytes may be in use at once than so far.
    pub(super) fn relayout(&mut self, active: &mut Cursor, ahead: u64) -> bool {
        let mut has_changed = false;
        for (place, plan) in self.plans.iter_mut().enumerate() {
            if !plan.lay_out(ahead) {
                continue;
            }
            has_changed = true;
            let laid_out = |draft: &Draft| Cursor::new(&plan.envelope, &draft.buffers, &draft.layout);
            let mut cursor = plan.draft.as_ref().map(laid_out).unwrap_or_default();
            if place == self.active {
                cursor.count_on(active);
                *active = cursor;
            } else {
                plan.cursor = Some(cursor);
            }
        }
        has_changed
    }

    /// Whether there is anything to lay out, now or in a while.
    pub(super) fn has_open_layouts(&self) -> bool {
        self.plans.iter().any(|plan| plan.is_outgrown() || plan.draft.as_ref().is_some_and(Draft::is_open))
    }

    /// Forgets the active plan, in which nothing is live.
    pub(super) fn remove_active(&mut self, cursor: &mut Cursor) {
        if self.is_empty() {
            return;
        }
        self.plans.swap_remove(self.active);
        (self.active, self.last) = (0, 0);
        self.plans.iter_mut().for_each(|plan| plan.next = [0; PLANS]);
        let mut new = self.plans.first_mut().and_then(|plan| plan.cursor.take()).unwrap_or_default();
        new.count_on(cursor);
        *cursor = new;
    }

    /// Forgets all plans, in which nothing is live, and returns their stream.
    pub(crate) fn clear(&mut self, cursor: &mut Cursor) -> Option<Stream> {
        let mut none = Cursor::default();
        none.count_on(cursor);
        *cursor = none;
        self.plans.clear();
        (self.active, self.last) = (0, 0);
        self.stream.take()
    }

    /// Tells everyone what plans there are.
    pub(crate) fn tell(&self, counters: &Counters) {
        let highest = self.drafts().max_by_key(|draft| draft.layout.height);
        counters.set(Counter::Plans, self.plans.len() as u64);
        counters.set(Counter::Positions, self.drafts().map(|draft| draft.positions).sum());
        counters.set(Counter::PlanBytes, self.bytes());
        counters.set(Counter::BoundBytes, highest.map_or(0, |draft| draft.bound));
    }
}

impl Plan {
    /// Has to hold more; its layout follows.
    fn hold(&mut self, envelope: Envelope) {
        (self.seen, self.draft, self.cursor) = (envelope, None, None);
    }

    /// Whether it has to hold more than it was laid out for.
    fn is_outgrown(&self) -> bool {
        let is_wider = self.widened * WIDENED > self.envelope.len() as u64;
        self.draft.is_none() || is_wider || self.seen.is_overtaken()
    }

    /// Makes a layout, or a lower one, where that is due. Returns whether something has changed.
    fn lay_out(&mut self, ahead: u64) -> bool {
        if !self.is_outgrown() {
            return self.draft.as_mut().is_some_and(Draft::improve);
        }
        self.seen.go_ahead(ahead);
        // Requests may have widened it beyond what a layout can hold.
        let arranged = self.seen.is_plannable().then(|| self.seen.arranged());
        self.draft = arranged.as_ref().and_then(Draft::new);
        // Without a layout it expects nothing, until its score has it forgotten.
        self.envelope = arranged.filter(|_| self.draft.is_some()).unwrap_or_default();
        (self.widened, self.need) = (0, self.envelope.bound());
        self.carry = CarryPlan::of(&self.envelope);
        true
    }
}
