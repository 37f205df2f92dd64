//! Page moves that plans cost. A scope that repeats itself should soon make no device calls. But its arena, or arrays beside its plans, may
//! need pages from elsewhere in entry after entry: sizes vary at random, two orders or two scopes take turns, or arrays that outlive their
//! entries lie where the next arena was. If pages move too often for what the plans serve, best fit without plans costs less. It moves no
//! pages, and keeps the memory that it has.

use super::Planner;
use super::backoff::{Backoff, Pace};
use crate::home::{Counter, Shared};

/// So many pieces of memory may move before plans have to earn it: three times the pieces of a range that has grown step by step, most of which
/// move for each of the first arenas.
const FREE: u64 = 3072;
/// After every so many entries with moves, this allowance halves. Plans that still learn seldom move pages in more entries, unless sizes grow
/// or arrays are huge.
const LEARNING: u64 = 16;
/// For each further piece, plans have to serve so many allocations. A move takes 5 to 60 µs on an H100, since the work that used the pages must
/// be done, and a planned allocation with its drop saves 0.1 µs. But plans often save memory too.
const SERVED: u64 = 64;
/// Where sizes grow, pages have to move, and a plan is worth more of them.
const SERVED_GROWING: u64 = 16;
/// If allocations are huge, best fit needs much more memory than plans do: a recurrent network 1.24 times its live memory, and 1.01 with plans.
/// A GPU takes a quarter of a millisecond to fill and read 256 MiB, so a move for each of them is hardly noticed.
const HUGE: u64 = 64 << 20;
const SERVED_BYTES: u64 = 256 << 20;
/// Once the scope has this many times more memory in use at once, other work has begun: the moves count from 0 again.
const ANEW: u64 = 2;
/// A loop that is this many times longer than all before it contains them, so its plan needs fewer arenas. There are at most 32 such loops.
const LONGER: u32 = 2;
/// The scope goes without plans for this many entries. If moves are too many again soon, it goes without plans for 32 times as many, and
/// so on. With eight times as many, two scopes by turns made three calls in each entry.
const PACE: Pace = Pace { first: 16, factor: 32, longest: 1 << 16 };

/// Counts the pieces of memory that moved, against the allocations that plans served.
#[derive(Default)]
pub(super) struct RecurringMoves {
    /// How many pieces may still move.
    left: u64,
    /// How many entries had moves, and the last one.
    entries: u64,
    entry: u64,
    /// The allocations that plans had served at the last move, and their bytes.
    served: u64,
    bytes: u64,
    /// The most bytes that the scope had in use at once when the count began.
    mark: u64,
    /// Whether sizes grew at a move.
    grows: bool,
    /// Whether the scope should go without plans for a while.
    pub(super) are_too_many: bool,
    /// The length of the longest loop that was planned, in allocations.
    longest: u32,
    waits: Backoff,
}

impl RecurringMoves {
    /// Counts anew if the scope, which had so many bytes in use at once, has begun other work.
    fn begin_anew(&mut self, demand: u64) {
        if demand > self.mark.saturating_mul(ANEW) {
            (self.mark, self.left, self.entries) = (demand, FREE, 0);
        }
    }

    /// Counts anew if a loop of so many allocations is planned for the first time, and is much longer than those before. The moves were those of
    /// their plans, such as the plans of layers.
    pub(super) fn begin_loop(&mut self, length: u32) {
        if length > self.longest.saturating_mul(LONGER) {
            (self.longest, self.left, self.entries, self.are_too_many) = (length, FREE, 0, false);
        }
    }

    /// Notes that so many pieces moved in an entry. Plans have served `served` allocations of `bytes` bytes so far. Where sizes grow, most bytes are
    /// copies of those before, and earn nothing.
    fn note(&mut self, entry: u64, pieces: u64, (served, bytes): (u64, u64), grows: bool) {
        self.entries += u64::from(std::mem::replace(&mut self.entry, entry) != entry);
        self.grows |= grows;
        let new = served.saturating_sub(std::mem::replace(&mut self.served, served));
        let new_bytes = bytes.saturating_sub(std::mem::replace(&mut self.bytes, bytes));
        let are_huge = new_bytes / HUGE >= new;
        let (earned, free) = match self.grows {
            true => (new / SERVED_GROWING, FREE),
            false if are_huge => (new / SERVED + new_bytes / SERVED_BYTES, FREE),
            false => (new / SERVED, FREE.checked_shr((self.entries / LEARNING) as u32).unwrap_or(0)),
        };
        let left = free.min(self.left.saturating_add(earned));
        self.are_too_many |= pieces > left;
        self.left = left.saturating_sub(pieces);
    }

    /// Whether the scope goes without plans in this entry.
    fn is_pausing(&self, entry: u64) -> bool {
        !self.waits.is_over(entry)
    }

    /// Whether the scope ever had to go without plans.
    #[inline]
    pub(super) fn has_paused(&self) -> bool {
        self.waits.wait() > 0
    }

    /// Counts anew. Returns the number of entries that should go without plans.
    fn pause(&mut self, entry: u64) -> u64 {
        (self.left, self.entries, self.are_too_many) = (FREE, 0, false);
        self.waits.tried(entry, PACE);
        self.waits.wait()
    }
}

impl Planner {
    /// Notes that so many pieces of memory moved for an arena, or for an array beside the plans, although the range could have grown.
    pub(crate) fn note_moves(&mut self, shared: &Shared, pieces: u64) {
        if self.has_plans_to_forget() {
            let [served, carried, bytes] = [Counter::PlanServed, Counter::Carried, Counter::PlanServedBytes]
                .map(|count| shared.counters.get(count));
            self.recurring.begin_anew(shared.counters.get(Counter::Demand));
            self.recurring.note(self.entry.number, pieces, (served + carried, bytes), self.plans.grows());
        }
    }

    /// Whether there are plans that can be forgotten. Graphs need their arena.
    fn has_plans_to_forget(&self) -> bool {
        !self.plans.is_empty() && !self.is_captured
    }

    /// Whether the plans should be forgotten, since page moves recur with them.
    pub(super) fn should_pause(&self) -> bool {
        self.recurring.are_too_many && self.has_plans_to_forget()
    }

    /// Forgets the plans, and makes none for a while. The range serves the scope like one that never had a plan.
    #[cold]
    pub(super) fn pause(&mut self, shared: &Shared) {
        shared.counters.set(Counter::IsInside, 0);
        // The lists give back what they kept beside the arena: see `lacks_arena`.
        self.effects.may_trim = self.plans.stream().cloned().map(|stream| (stream, None));
        self.forget_plans(shared);
        self.loops.learned = None;
        self.footprint.has_planned = false;
        self.trimming.note_spare(shared.counters.times_taken());
        let entries = self.recurring.pause(self.entry.number);
        self.loops.look_for_longer(entries);
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

    /// The entries until moves are too many, if each has so many pieces, and plans serve so many allocations and bytes.
    fn entries_until(pieces: u64, served: u64, bytes: u64, grows: bool) -> Option<u64> {
        let mut moves = RecurringMoves::default();
        moves.begin_anew(1);
        (1..100_000).find(|&entry| {
            moves.note(entry, pieces, (entry * served, entry * bytes), grows);
            moves.are_too_many
        })
    }

    /// The step around layers does not pay for the moves of their plans. A loop of about the same length does.
    #[test]
    fn a_much_longer_loop_counts_anew() {
        let mut moves = RecurringMoves::default();
        moves.begin_anew(1);
        moves.begin_loop(49);
        moves.note(1, FREE, (0, 0), false);
        moves.begin_loop(2 * 49);
        moves.note(2, 1, (0, 0), false);
        assert!(moves.are_too_many);
        moves.begin_loop(2040);
        moves.note(3, FREE, (0, 0), false);
        assert!(!moves.are_too_many);
    }

    #[test]
    fn moves_for_which_plans_serve_little_are_too_many() {
        assert_eq!(entries_until(FREE + 1, 0, 0, false), Some(1));
        assert_eq!(entries_until(FREE / 8, 0, 0, false), Some(9));
        assert!(entries_until(16, 8 * SERVED, 0, false) < Some(FREE / 16));
        assert!(entries_until(16, 8 * SERVED_GROWING, 16 * SERVED_BYTES, true).is_some());
        assert_eq!(entries_until(16, 16 * SERVED_GROWING, 0, true), None);
        assert_eq!(entries_until(4, 0, 4 * SERVED_BYTES, false), None);
        assert!(entries_until(16, 8 * SERVED, 16 * SERVED_BYTES, false).is_some(), "small arrays");
        assert_eq!(entries_until(2, 32, 0, false), Some(120));
    }

    #[test]
    fn other_work_moves_pages_anew() {
        let mut moves = RecurringMoves::default();
        (1..30).for_each(|demand| {
            moves.begin_anew(1 << (2 * demand));
            moves.note(1, FREE, (0, 0), false);
        });
        assert!(!moves.are_too_many);
        moves.begin_anew(2 << 58);
        moves.note(1, 1, (0, 0), false);
        assert!(moves.are_too_many, "hardly more memory");
    }

    #[test]
    fn pauses_become_longer_and_each_counts_anew() {
        let (mut moves, mut entry, mut pauses) = (RecurringMoves::default(), 0, Vec::new());
        while pauses.len() < 4 {
            entry += 1;
            moves.note(entry, FREE / 4, (0, 0), false);
            if moves.are_too_many {
                pauses.push(moves.pause(entry));
                entry += pauses.last().unwrap_or(&0);
            }
        }
        assert_eq!(pauses, [16, 528, 16912, 65536]);
    }
}
