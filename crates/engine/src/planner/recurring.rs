//! Page moves that recur. A scope that repeats itself should soon make no device calls. But its arena, or arrays beside its plans, may need
//! pages from elsewhere in entry after entry: two orders or two scopes take turns, and arrays that outlive their entries lie where the
//! next arena was. Then best fit without plans costs less. It moves no pages, and keeps the memory that it has.

use super::Planner;
use super::backoff::{Backoff, Pace};
use crate::home::{Counter, Shared};

/// So many entries with moves for one size are too many. Of 129 recorded and generated programs, twelve stopped moving pages after 16 to 64
/// such entries.
const MOST: u32 = 64;
/// If they are too many soon after a pause, the next try may have twice as many, up to 2^3 times: some plans need no moves once they have
/// found their place, which may take more than 64 entries each time.
const MOST_DOUBLINGS: u32 = 3;
/// Two entries count together if so few lie between them. Where an order lost its plan and got another one, twelve entries lay between.
const NEAR: u64 = 32;
/// The sizes that are watched. With four, programs that moved pages for five sizes by turns were missed.
const SIZES: usize = 16;
/// The scope goes without plans for this many entries. If moves are too many again soon, it goes without plans for eight times as many, and
/// so on. The last tries have up to 10,000 device calls, one for each six entries of the longest wait.
const PACE: Pace = Pace { first: 512, factor: 8, longest: 1 << 16 };
/// Moves that begin only after this many entries with plans are of another phase of the program. Moves that never end begin at once, or
/// within some hundred entries.
const SOON: u64 = 512;

/// The requests of one size for which pages moved.
#[derive(Clone, Copy, Default)]
struct Moved {
    bytes: u64,
    /// The first and the last entry with such a request, and the number of these entries.
    first: u64,
    last: u64,
    entries: u32,
}

/// Counts the entries in which pages moved for requests of the same size.
#[derive(Default)]
pub(super) struct RecurringMoves {
    /// Boxed, so that it lies apart from the rest: few entries touch it.
    sizes: Box<[Moved; SIZES]>,
    are_too_many: bool,
    /// The first of the entries that are too many.
    began: u64,
    waits: Backoff,
    /// The first entry after the last wait, and how often the number of entries that are too many was doubled.
    resumed: u64,
    doublings: u32,
}

impl RecurringMoves {
    /// Notes that pages moved for a request of `bytes` bytes in this entry.
    fn note(&mut self, bytes: u64, entry: u64) {
        let place = self.sizes.iter().position(|size| size.bytes == bytes);
        let oldest = || (0..SIZES).min_by_key(|&place| self.sizes[place].last).unwrap_or(0);
        let size = &mut self.sizes[place.unwrap_or_else(oldest)];
        let goes_on = size.bytes == bytes && entry <= size.last.saturating_add(NEAR);
        let entries = if goes_on { size.entries.saturating_add(u32::from(entry != size.last)) } else { 1 };
        let first = if goes_on { size.first } else { entry };
        *size = Moved { bytes, first, last: entry, entries };
        if entries >= MOST << self.doublings {
            (self.are_too_many, self.began) = (true, first);
        }
    }

    /// Whether the scope should go without plans for a while.
    #[inline]
    pub(super) fn are_too_many(&self) -> bool {
        self.are_too_many
    }

    /// Whether the scope goes without plans in this entry.
    fn is_pausing(&self, entry: u64) -> bool {
        !self.waits.is_over(entry)
    }

    /// Counts anew, for other plans.
    pub(super) fn count_anew(&mut self) {
        *self.sizes = Default::default();
        self.are_too_many = false;
    }

    /// Counts anew. Returns the number of entries that should go without plans.
    fn pause(&mut self, entry: u64) -> u64 {
        self.count_anew();
        if self.began > self.resumed.saturating_add(SOON << self.doublings) {
            (self.waits, self.doublings) = (Backoff::default(), 0);
        } else if self.resumed > 0 {
            self.doublings = MOST_DOUBLINGS.min(self.doublings + 1);
        }
        self.waits.tried(entry, PACE);
        self.resumed = entry.saturating_add(self.waits.wait());
        self.waits.wait()
    }
}

impl Planner {
    /// Notes that pages moved for an arena, or for an array beside the plans, although the range could have grown.
    pub(crate) fn note_moves(&mut self, bytes: u64) {
        if self.has_steady_plans() {
            self.recurring.note(bytes, self.entry.number);
        }
    }

    /// Whether there are plans that should need no page moves, and can be forgotten. Where sizes grow, pages have to move. Graphs need an arena.
    /// An entry with loops may be the program's only one, so it would never get plans again.
    fn has_steady_plans(&self) -> bool {
        !self.plans.is_empty() && !self.plans.grows() && !self.is_captured && !self.loops.is_inside()
    }

    /// Whether the plans should be forgotten, since page moves recur with them.
    pub(super) fn should_pause(&self) -> bool {
        self.recurring.are_too_many() && self.has_steady_plans()
    }

    /// Forgets the plans, and makes none for a while. The range serves the scope like one that never had a plan.
    #[cold]
    pub(super) fn pause(&mut self, shared: &Shared) {
        self.forget_plans(shared);
        self.loops.forget_learned();
        self.footprint.has_planned = false;
        self.trimming.note_spare(shared.counters.times_taken());
        let entries = self.recurring.pause(self.entry.number);
        self.learning.learner.rest(entries);
        self.learning.stop();
        self.plans.tell(&shared.counters);
        self.tell_stop(shared);
    }

    /// Ends a pause, since graphs need plans.
    pub(super) fn end_pause(&mut self) {
        if self.recurring.is_pausing(self.entry.number) {
            self.learning.learner.wake();
        }
        self.recurring = RecurringMoves::default();
    }

    /// Publishes whether the scope records no entries, and why. A pause ends by itself, without other news.
    pub(super) fn tell_stop(&self, shared: &Shared) {
        let has_stopped = self.learning.learner.has_stopped();
        if has_stopped || shared.counters.get(Counter::HasStopped) != 0 {
            self.tell_pause(shared, has_stopped);
        }
    }

    #[cold]
    fn tell_pause(&self, shared: &Shared, has_stopped: bool) {
        shared.counters.set(Counter::HasStopped, u64::from(has_stopped));
        let do_moves_recur = has_stopped && self.recurring.is_pausing(self.entry.number);
        shared.counters.set(Counter::MovesRecur, u64::from(do_moves_recur));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries until moves of these sizes by turns, one every `distance` entries, are too many.
    fn entries_until(sizes: &[u64], distance: u64) -> Option<u64> {
        let mut moves = RecurringMoves::default();
        (1..10_000).find(|&entry| {
            if entry % distance == 0 {
                let turn = (entry / distance) as usize % sizes.len();
                // A second request of an entry does not count.
                (0..2).for_each(|_| moves.note(sizes[turn], entry));
            }
            moves.are_too_many()
        })
    }

    #[test]
    fn moves_that_recur_for_one_size_are_too_many() {
        assert_eq!(entries_until(&[7], 1), Some(64));
        assert_eq!(entries_until(&[7], 32), Some(32 * 64));
        assert_eq!(entries_until(&[7], 33), None);
        assert_eq!(entries_until(&[1, 2, 3, 4, 5], 2), Some(2 * (5 * 63 + 1)));
        let many: Vec<u64> = (1..=17).collect();
        assert_eq!(entries_until(&many, 1), None, "sizes that vary");
    }

    #[test]
    fn pauses_become_longer_and_each_counts_anew() {
        let mut moves = RecurringMoves::default();
        let (mut entry, mut pauses) = (0, Vec::new());
        while pauses.len() < 4 {
            entry += 1;
            moves.note(9, entry);
            if moves.are_too_many() {
                pauses.push(moves.pause(entry));
                entry += pauses.last().unwrap_or(&0);
            }
        }
        assert_eq!(pauses, [512, 4608, 37376, 65536]);
    }

    /// Moves in one of many entries are too many only after thousands of entries. They are of the same phase all the same.
    #[test]
    fn rare_moves_that_never_end_have_longer_pauses_too() {
        let (mut moves, mut entry, mut pauses) = (RecurringMoves::default(), 0, Vec::new());
        while pauses.len() < 3 {
            entry += 20;
            moves.note(9, entry);
            if moves.are_too_many() {
                pauses.push(moves.pause(entry));
                entry += pauses.last().unwrap_or(&0);
            }
        }
        assert_eq!(pauses, [512, 4608, 37376]);
    }

    #[test]
    fn another_phase_has_a_short_pause_again() {
        let (mut moves, mut entry) = (RecurringMoves::default(), 0);
        for distance in [600, 600, 0, 0, 8_000] {
            entry += distance;
            while !moves.are_too_many() {
                entry += 1;
                moves.note(9, entry);
            }
            let pause = moves.pause(entry);
            assert_eq!(pause == 512, distance > 0, "after {distance} entries: {pause}");
            entry += pause;
        }
    }
}
