//! The layouts of plans. Plans that begin alike get the same places for their first positions, so that an entry can leave one plan for another
//! ([`branches`](super::branches)).
//!
//! The plan that needs most memory is laid out first, as if it were alone. The arena is as large as that in any case. The other plans find room
//! around the places that they have in common with a plan before them. A plan that does not find enough gets a layout of its own.

use std::cmp::Reverse;

use super::{PLANS, Plan, Plans};
use crate::planner::carry::CarryPlan;
use crate::planner::draft::Draft;
use gpucache_plan::entries::{Cursor, Envelope};

/// Plans have at least so many positions in common, or share nothing: their entries part so soon that the first size mostly tells them apart. The
/// number was chosen, not measured.
const FEWEST: usize = 8;
/// Common sizes and lives may raise the bound of a plan to this share, 1/128, above that of the largest one. Without a limit for each plan, steps of
/// eight kinds had an arena that was too large for the range, and no plan.
const RAISED: u64 = 128;

/// The envelope of a plan that is to be laid out.
struct LayoutInput {
    envelope: Envelope,
    /// The bound of the envelope without what is in common.
    need: u64,
    /// The plan whose first places it gets, and their number.
    like: Option<(usize, usize)>,
    /// Whether other plans have first places of this one.
    is_shared: bool,
}

impl Plans {
    /// Makes the layouts that are missing or too small. Nothing may be alive. Returns whether any layout has changed. Where sizes grow, the
    /// layouts may have `ahead` more bytes in use at once than so far.
    pub(in crate::planner) fn relayout(&mut self, active: &mut Cursor, ahead: u64) -> bool {
        if !self.has_open_layouts() {
            return false;
        }
        let changed = self.lay_out(ahead);
        for (place, plan) in self.plans.iter_mut().enumerate().filter(|&(place, _)| changed[place]) {
            let laid_out = |draft: &Draft| Cursor::new(&plan.envelope, &draft.buffers, &draft.layout);
            let mut cursor = plan.draft.as_ref().map(laid_out).unwrap_or_default();
            if place == self.active {
                cursor.count_on(active);
                *active = cursor;
            } else {
                plan.cursor = Some(cursor);
            }
        }
        changed.contains(&true)
    }

    /// Makes the layouts that are missing or too small, and those that depend on them. Returns which plans have changed.
    fn lay_out(&mut self, ahead: u64) -> [bool; PLANS] {
        let outgrown = self.plans.iter_mut().filter(|plan| plan.is_outgrown());
        outgrown.for_each(|plan| plan.seen.go_ahead(ahead));
        let mut sources: Vec<LayoutInput> = self.plans.iter().map(LayoutInput::of).collect();
        let order = in_common(&mut sources);
        let mut changed = [false; PLANS];
        for (rank, &place) in order.iter().enumerate() {
            let like = sources[place].like;
            let is_kept =
                !like.is_some_and(|(other, _)| changed[other]) && self.plans[place].is_laid_out_from(&sources[place]);
            if !is_kept {
                let most = if rank == 0 { u64::MAX } else { self.bytes() };
                changed[place] = true;
                self.lay_out_plan(place, &sources[place], most);
            }
        }
        changed
    }

    /// Lays a plan out around the places in common, at most so high, or alone if that cannot be.
    fn lay_out_plan(&mut self, place: usize, source: &LayoutInput, most: u64) {
        self.forget_alike(place);
        let around = source.like.and_then(|(other, count)| {
            let draft = self.plans[other].draft.as_ref()?;
            Some((other, count, Draft::around(&source.envelope, draft, count, most)?))
        });
        if let Some((other, count, draft)) = around {
            self.plans[place].take_draft(Some(draft), source.envelope.clone(), source.need);
            self.note_alike(place, other, count as u32);
            return;
        }
        let alone = source.like.map(|_| LayoutInput::of(&self.plans[place]).envelope);
        let envelope = alone.unwrap_or_else(|| source.envelope.clone());
        let draft = envelope.is_plannable().then(|| Draft::new(&envelope)).flatten();
        self.plans[place].take_draft(draft, envelope, source.need);
    }
}

impl Plan {
    /// Takes a layout of this envelope. Without one, the plan expects nothing, and its score falls until it is forgotten.
    fn take_draft(&mut self, draft: Option<Draft>, envelope: Envelope, need: u64) {
        self.envelope = if draft.is_some() { envelope } else { Envelope::default() };
        (self.draft, self.widened, self.need) = (draft, 0, need);
        self.carry = CarryPlan::of(&self.envelope);
    }

    /// Whether the layout is large enough, and has these places in common.
    fn is_laid_out_from(&self, source: &LayoutInput) -> bool {
        let shares = source.like.is_none_or(|(other, count)| self.alike[other] as usize == count);
        shares && !self.is_outgrown() && (source.is_alone() || self.envelope.is_same_as(&source.envelope))
    }
}

impl LayoutInput {
    /// Whether nothing is in common with another plan.
    fn is_alone(&self) -> bool {
        self.like.is_none() && !self.is_shared
    }

    fn of(plan: &Plan) -> LayoutInput {
        let seen = plan.known();
        // Requests may have widened the plan beyond any possible layout.
        let envelope = if seen.is_plannable() { seen.arranged() } else { Envelope::default() };
        LayoutInput { need: envelope.bound(), envelope, like: None, is_shared: false }
    }
}

/// Finds for each plan the larger one with which it has most in common, and gives both the same sizes and lives there. Returns the order in
/// which the plans are to be laid out.
fn in_common(sources: &mut [LayoutInput]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sources.len()).collect();
    order.sort_by_key(|&place| Reverse(sources[place].need));
    let alone: Vec<Envelope> = sources.iter().map(|source| source.envelope.clone()).collect();
    let largest = order.first().map_or(0, |&largest| sources[largest].need);
    let most = largest.saturating_add(largest / RAISED);
    for (rank, &place) in order.iter().enumerate() {
        let shares = |&other: &usize| (alone[place].shares(&alone[other]), Reverse(other));
        let found = order[..rank].iter().map(shares).max().filter(|&(count, _)| count >= FEWEST);
        let like = found.and_then(|(count, Reverse(other))| {
            Some((other, affordable([&alone[place], &alone[other]], count, most)?))
        });
        sources[place].like = like;
    }
    // What two plans have in common may be in common with a third one, so the second round reaches all of them.
    for _ in 0..2 {
        for &place in &order {
            if let Some((other, count)) = sources[place].like
                && let Ok([one, other]) = sources.get_disjoint_mut([place, other])
            {
                one.envelope.share(&mut other.envelope, count);
                other.is_shared = true;
            }
        }
    }
    if sources.iter().any(|source| !source.envelope.is_plannable() || source.envelope.bound() > most) {
        for (source, alone) in sources.iter_mut().zip(alone) {
            *source = LayoutInput { envelope: alone, like: None, is_shared: false, ..*source };
        }
    }
    order
}

/// How many of the first `count` positions two plans can share if neither may then have more than `most` bytes in use at once. `None` if there
/// are too few of them.
fn affordable([one, other]: [&Envelope; 2], count: usize, most: u64) -> Option<usize> {
    let fits = |count: usize| {
        let (mut one, mut other) = (one.clone(), other.clone());
        one.share(&mut other, count);
        one.bound() <= most && other.bound() <= most
    };
    if fits(count) {
        return Some(count);
    }
    let counts: Vec<usize> = (FEWEST..count).collect();
    let fitting = counts.partition_point(|&count| fits(count));
    counts.get(fitting.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpucache_plan::entries::Log;

    /// Entries with this many arrays of this size, all of them alive until the end.
    fn log(arrays: u32, bytes: u64) -> Log {
        let mut log = Log::default();
        (0..arrays).for_each(|_| assert!(log.allocated(0, bytes).is_some()));
        (0..arrays).for_each(|number| log.dropped(number));
        log
    }

    fn plan(arrays: u32, bytes: u64) -> Plan {
        let log = log(arrays, bytes);
        Plan { seen: Envelope::of(&log, &log).unwrap(), ..Plan::default() }
    }

    #[test]
    fn the_arena_is_large_enough_for_a_plan_that_waits_for_its_layout() {
        let waits: [fn(&mut Plans); 3] = [
            |plans| plans.plans[0].hold(Envelope::of(&log(200, 4096), &log(200, 8192)).unwrap()),
            |plans| (0..2).for_each(|_| plans.carry_escaped([0].into_iter())),
            |plans| plans.widen_soon(0, 8192),
        ];
        for wait in waits {
            let mut plans = Plans { plans: vec![plan(200, 4096), plan(20, 4096)], ..Plans::default() };
            let mut cursor = Cursor::default();
            assert!(plans.relayout(&mut cursor, 0));
            let bytes = plans.bytes();
            wait(&mut plans);
            assert!(plans.is_outgrown());
            assert_eq!(plans.bytes(), bytes, "an entry may follow the layout before");
        }
    }
}
