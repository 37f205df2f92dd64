//! Whether entries with loops are planned as a whole: pure decisions from their lengths, and from how much of them plans served.
//!
//! A plan for an entry has fewer gaps than one for each loop in it. And the layers of a training step may look like a loop although each
//! of them uses memory of its own, as under activation checkpointing: plans of such loops serve little. So entries of about the same length
//! are recorded as a whole for a while. If that teaches a plan, no loop is searched in entries until that plan is forgotten.

use crate::planner::backoff::{Backoff, Pace};

/// Whether entries are planned as a whole, and what decides that.
#[derive(Default)]
pub(super) struct Whole {
    is_on: bool,
    /// Whether no entry has begun since it was switched on.
    begins: bool,
    /// How many more entries without a plan are recorded as a whole.
    tries: u32,
    has_tried_equal: bool,
    waits: Backoff,
    /// Entries with loops so far.
    entries: u64,
    /// Allocations of the scope at the end of the last entry with loops.
    allocations: u64,
    /// Those of them that plans served.
    served: u64,
    /// The allocations of the last entries with loops, the latest last.
    lengths: [u64; REMEMBERED],
    /// How many entries ago one was as long as the last one; 0 if none was.
    again: usize,
    /// For how many entries in a row this has been so.
    agrees: u32,
}

/// Entries with more allocations than this are not tried as a whole. Their plan would not stay in the processor's cache.
const LONG: u64 = 1 << 14;
/// Two equal entries make a plan. If entries of several lengths take turns, two turns do.
const EQUAL_TRIES: u32 = 2;
/// Entries of so many lengths may take turns: a scope has as many plans.
const REMEMBERED: usize = 8;
/// Entries take turns if so many in a row are as long as the one a turn before. One or two may be so by chance. The number was chosen, not measured.
const AGREES: u32 = 3;
/// Entries whose loops have bad plans may have several orders that take turns. Three orders are recognised, and after eight entries most
/// of them came twice.
const TRIES: u32 = 8;
/// Entries are about as long as each other if their lengths differ by at most this share, 1/8.
const ALIKE: u64 = 8;
/// Plans of loops serve an entry well if they serve at least three of this many allocations.
const SERVED: u64 = 4;
/// A series of tries costs as much as its entries gain from plans of loops. So the first wait is twice as long.
const WAITS: Pace = Pace { first: 2 * TRIES as u64, factor: 2, longest: 1 << 12 };

impl Whole {
    /// Whether entries are planned as a whole now.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Begins an entry. Returns whether it is recorded afresh, without the plans that there are.
    pub(super) fn begin(&mut self, has_plans: bool) -> bool {
        let is_first = std::mem::take(&mut self.begins);
        if !self.is_on || has_plans && !is_first {
            return false;
        }
        self.is_on = self.tries > 0;
        match self.is_on {
            true => self.tries -= 1,
            false => self.waits.tried(self.entries, WAITS),
        }
        self.is_on
    }

    /// Whether an entry is still planned as a whole, although it has so many allocations that no plan served. If they are too many, no entry is from
    /// now on.
    pub(super) fn goes_on(&mut self, allocations: u64) -> bool {
        if self.is_on && allocations >= LONG {
            (self.is_on, self.tries) = (false, 0);
            self.waits.tried(self.entries, WAITS);
        }
        self.is_on
    }

    /// Notes the end of an entry with loops, or that searched for a known one, with the allocations that the scope has made by then, and those of
    /// them that plans served. Returns the allocations of the entry if it may be planned as a whole, and otherwise 0.
    pub(super) fn count_entry(&mut self, allocations: u64, served: u64) -> u64 {
        self.entries += 1;
        let made = allocations.wrapping_sub(std::mem::replace(&mut self.allocations, allocations));
        let planned = served.wrapping_sub(std::mem::replace(&mut self.served, served));
        let (before, again) = (self.lengths[REMEMBERED - 1], self.note_length(made));
        if made >= LONG {
            return 0;
        }
        let turns = EQUAL_TRIES * again as u32;
        if self.is_on {
            // Each of the orders that take turns is recorded.
            self.tries = self.tries.max(if again > 1 { turns } else { 0 });
            return made;
        }
        let is_badly_served = planned.saturating_mul(SERVED) < made.saturating_mul(SERVED - 1);
        let is_alike = made.abs_diff(before) <= made / ALIKE;
        match is_badly_served && is_alike {
            true if self.waits.is_over(self.entries) => self.switch_on(TRIES),
            _ if again > 0 && !self.has_tried_equal => self.switch_on(turns),
            _ => {}
        }
        self.has_tried_equal |= again > 0;
        made
    }

    /// Notes the length of an entry. Returns how many entries ago one was equally long, if that was the last one or if entries take turns. Otherwise 0.
    fn note_length(&mut self, made: u64) -> usize {
        let again = (1..=REMEMBERED).find(|back| self.lengths[REMEMBERED - back] == made).unwrap_or(0);
        self.lengths.rotate_left(1);
        self.lengths[REMEMBERED - 1] = made;
        self.agrees = if again == self.again { self.agrees + 1 } else { 1 };
        self.again = again;
        if again == 1 || self.agrees >= AGREES { again } else { 0 }
    }

    /// Whether the entry that ends after so many allocations of the scope is recorded as a whole, and one was equally long.
    pub(super) fn has_come(&self, allocations: u64) -> bool {
        self.is_on && self.lengths.contains(&allocations.wrapping_sub(self.allocations))
    }

    /// Whether entries of several lengths take turns.
    pub(super) fn takes_turns(&self) -> bool {
        self.is_on && self.again > 1
    }

    fn switch_on(&mut self, tries: u32) {
        (self.is_on, self.begins, self.tries) = (true, true, tries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends entries with loops of these lengths, of which plans served this many percent. Returns whether the next is recorded as a whole.
    fn after(whole: &mut Whole, lengths: &[u64], percent: u64) -> bool {
        for made in lengths {
            whole.count_entry(whole.allocations + made, whole.served + made * percent / 100);
        }
        whole.begin(true)
    }

    #[test]
    fn equal_entries_are_tried_once_however_well_their_loops_are_served() {
        let mut whole = Whole::default();
        assert!(!after(&mut whole, &[1000, 1010, 990], 100), "they differ");
        assert!(after(&mut whole, &[990], 100) && whole.begin(false));
        assert!(!whole.begin(false), "two tries taught nothing");
        assert!(!after(&mut whole, &[990, 990], 100), "tried before");
        assert!(!after(&mut Whole::default(), &[LONG, LONG], 0), "too long");
    }

    #[test]
    fn entries_that_take_turns_are_tried_once_each_has_come_again() {
        let mut whole = Whole::default();
        let turn = [1000, 3000, 600, 9000];
        assert!(!after(&mut whole, &turn, 80) && !after(&mut whole, &turn[..2], 80), "two may come again by chance");
        assert!(after(&mut whole, &turn[2..3], 80) && whole.takes_turns());
        assert!((1..EQUAL_TRIES * 4).all(|_| whole.begin(false)) && !whole.begin(false), "two turns");
        let (mut chance, mut other) = (Whole::default(), 0);
        let mut length = || {
            other += 1;
            [500 + 300 * (other % 3), 701 * other]
        };
        assert!((0..40).all(|_| !after(&mut chance, &length(), 80)), "each second one is as long as one a turn before");
    }

    #[test]
    fn an_entry_that_is_too_long_is_none_to_plan_as_a_whole() {
        let mut whole = Whole::default();
        assert!(after(&mut whole, &[1000, 1000], 80) && whole.goes_on(LONG - 1));
        assert!(whole.has_come(whole.allocations + 1000) && !whole.has_come(whole.allocations + 1001));
        assert!(!whole.goes_on(LONG) && !whole.is_on() && !whole.has_come(whole.allocations + 1000));
    }

    #[test]
    fn entries_of_about_one_length_are_tried_if_plans_of_loops_serve_little() {
        let mut whole = Whole::default();
        assert!(!after(&mut whole, &[1000, 2000, 500], 10), "answers of any length");
        assert!(!after(&mut whole, &[510], 80), "their loops are served well");
        assert!(after(&mut whole, &[500], 70));
        assert!((1..TRIES).all(|_| whole.begin(false)) && !whole.begin(false));
        assert!(!after(&mut whole, &[505], 0), "soon after a series that taught nothing");
        let lengths: Vec<u64> = (0..40).map(|entry| 500 + entry % 3).collect();
        assert!(after(&mut whole, &lengths, 0), "later");
    }

    #[test]
    fn a_plan_of_the_whole_entry_stays_until_it_is_forgotten() {
        let mut whole = Whole::default();
        assert!(after(&mut whole, &[500, 510], 0) && whole.begin(false));
        assert!((0..100).all(|_| !whole.begin(true)) && whole.is_on());
        assert!((2..TRIES).all(|_| whole.begin(false)) && !whole.begin(false) && !whole.is_on());
    }
}
