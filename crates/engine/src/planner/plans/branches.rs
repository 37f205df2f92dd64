//! Plans that begin alike: an entry leaves its plan for the one whose allocations it makes.

use super::{PLANS, Plans};
use gpucache_plan::entries::Cursor;

impl Plans {
    /// Goes on by another plan that began like the active one and expects this request now, if there is one and the active one does not. Returns
    /// whether there is. That plan fits the request, so no further one suits better.
    pub(in crate::planner) fn branch_off(&mut self, cursor: &mut Cursor, bytes: u64) -> bool {
        (0..self.plans.len()).any(|place| self.goes_on_by(place, cursor, bytes))
    }

    fn goes_on_by(&mut self, place: usize, cursor: &mut Cursor, bytes: u64) -> bool {
        let Ok([active, other]) = self.plans.get_disjoint_mut([self.active, place]) else { return false };
        let is_alike = cursor.next() > 0 && active.alike[place] as usize >= cursor.next();
        let suits = |new: &mut Cursor| is_alike && new.suits_better(cursor, &active.envelope, bytes);
        let Some(mut new) = other.cursor.take_if(suits) else { return false };
        let continues = new.continue_entry(cursor);
        if !continues {
            other.cursor = Some(new);
            return false;
        }
        std::mem::swap(cursor, &mut new);
        active.cursor = Some(new);
        self.active = place;
        true
    }

    /// Notes that two plans have the same places for their first positions. The first one then shares places with a third plan as
    /// far as the other one does.
    pub(super) fn note_alike(&mut self, place: usize, other: usize, count: u32) {
        for third in 0..self.plans.len() {
            let with_third = if third == other { count } else { self.plans[other].alike[third].min(count) };
            if third != place {
                self.plans[place].alike[third] = with_third;
                self.plans[third].alike[place] = with_third;
            }
        }
    }

    /// Notes that a plan gets other places.
    pub(super) fn forget_alike(&mut self, place: usize) {
        self.plans[place].alike = [0; PLANS];
        self.plans.iter_mut().for_each(|plan| plan.alike[place] = 0);
    }

    /// Removes a plan. The last one takes its number.
    pub(super) fn remove(&mut self, place: usize) {
        self.plans.swap_remove(place);
        let last = self.plans.len();
        for plan in &mut self.plans {
            plan.alike[place] = std::mem::take(&mut plan.alike[last]);
            plan.next = [0; PLANS];
        }
        if let Some(moved) = self.plans.get_mut(place) {
            moved.alike[place] = 0;
        }
    }
}
