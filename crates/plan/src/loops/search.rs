//! The search for a loop in the entry that is going on.

use super::candidate::Candidate;
use super::cycles::{Cycle, Cycles};
use super::iteration::{self, Verdict};
use super::windows::{Known, WINDOW, Windows, known_place, with_drop};
use crate::entries::Log;

/// Looks for a loop in the allocations of an entry. The caller logs them ([`Log`]).
#[derive(Debug, Default)]
pub struct Search {
    /// For each allocation, the token of the arrays that were dropped before it ([`with_drop`]).
    tokens: Vec<u32>,
    /// The token of the arrays that were dropped since the last allocation.
    pending: u32,
    windows: Windows,
    candidates: [Option<Candidate>; CANDIDATES],
    /// Whether there is a candidate.
    follows: bool,
    /// Whether nothing is noted for now, and the allocation at which this may change. Below: whether the search may rest at all.
    pub(super) rests: bool,
    turn: u32,
    may_rest: bool,
    /// Periods that are no loops, with the allocation from which on they may be tried again.
    refused: [(u32, u32); REFUSED],
    next_refused: usize,
    /// Steps that looking back took: at most one for each allocation so far.
    spent: u32,
    /// The period of a candidate that is a loop, the length of its iterations, and the allocation that begins the next one.
    found: Option<(u32, u32, u32)>,
    cycles: Cycles,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A loop. The last two iterations end with the last allocation.
    Loop {
        /// The number of allocations in an iteration.
        length: u32,
    },
    /// The iteration of the known loop with the number `place` goes on at `position`.
    Known {
        /// The number that the caller gave the loop.
        place: u32,
        /// The position of the next allocation.
        position: u32,
    },
}

/// The candidates that are followed at once: a loop, and one inside or around it.
const CANDIDATES: usize = 3;
/// Periods of loops inside loops that are no use: there are few of them.
const REFUSED: usize = 4;
/// A refused period may be tried again after this many periods, since the program may do other work by then. The number was chosen, not
/// measured.
const AGAIN: u32 = 64;
/// A loop has to have this many allocations so far. The layers of one step are a loop too, but a step that is an entry has a plan as a
/// whole, with fewer gaps. Most steps are longer than this, and few have layers that together are.
const LEAST: u32 = 512;
/// A search that has no candidate after so many allocations rests for as many more, searches for one in [`TURN`] of them all, rests for as
/// many as there were, and so on. A loop that begins meanwhile has to last for as long as all before it anyway. The table finds few loops
/// with longer iterations than this.
const SEARCHED_BEFORE_REST: u32 = 1 << 14;
/// After a rest, a search lasts for this share, 1/4, of the allocations so far. The share was chosen, not measured.
const TURN: u32 = 4;

impl Search {
    /// Begins a search behind so many allocations of the log. The loops are known from earlier searches.
    pub fn begin<'k>(&mut self, known: impl Iterator<Item = (u32, &'k Known)>, from: u32) {
        let mut known = known.peekable();
        self.tokens.clear();
        self.tokens.resize(from as usize, 0);
        // The place in a known loop has to be found at once.
        (self.rests, self.turn, self.may_rest) = (false, SEARCHED_BEFORE_REST, known.peek().is_none());
        self.windows.begin(known);
        (self.pending, self.spent, self.found) = (0, 0, None);
        self.cycles.begin(from);
        (self.candidates, self.follows, self.refused) = ([None; CANDIDATES], false, [(0, 0); REFUSED]);
    }

    /// Searches for no shorter period and no shorter cycles in so many allocations.
    pub fn skip_shorter(&mut self, least: u32, allocations: u32) {
        self.cycles.least = (least, (self.tokens.len() as u32).saturating_add(allocations));
    }

    /// Looks for no cycles in so many allocations.
    pub fn skip_cycles(&mut self, allocations: u32) {
        self.cycles.until = (self.tokens.len() as u32).saturating_add(allocations);
    }

    /// Whether the end of a cycle is awaited.
    #[inline]
    pub fn awaits_cycle(&self) -> bool {
        self.cycles.are_found()
    }

    /// The cycle that ends before the next allocation, if one does: the live bytes rose and fell.
    pub fn cycle(&mut self, log: &Log) -> Option<Cycle> {
        self.cycles.ended(log)
    }

    /// Notes the drop of an array of the search, so many allocations after its own.
    #[inline]
    pub fn dropped(&mut self, age: u32) {
        if !self.rests {
            self.pending = with_drop(self.pending, age);
        }
    }

    /// Notes the allocation that was logged last. Returns what is found, when the next allocation continues it.
    #[inline]
    pub fn allocated(&mut self, log: &Log) -> Option<Found> {
        let number = log.len().checked_sub(1)?;
        if self.rests {
            if number < self.turn {
                return None;
            }
            self.wake(log, number);
        }
        if number as usize != self.tokens.len() {
            return None;
        }
        let bytes = log.bytes_at(number)?;
        self.cycles.allocated(log, number, bytes);
        let token = std::mem::take(&mut self.pending);
        self.tokens.push(token);
        let seen = self.windows.push(bytes, token, number);
        if self.follows | (seen != [0; 2]) {
            return self.look(log, number, seen);
        }
        if number >= self.turn {
            self.take_turn(number);
        }
        None
    }

    /// Begins to rest, since there is nothing to follow.
    #[cold]
    fn take_turn(&mut self, number: u32) {
        self.rests = self.may_rest;
        self.turn = number.saturating_add(if self.rests { number } else { number / TURN });
    }

    /// Ends a rest. The log knows which arrays of its own were dropped meanwhile, and when.
    #[cold]
    fn wake(&mut self, log: &Log, number: u32) {
        (self.rests, self.turn) = (false, number.saturating_add(number / TURN));
        let first = self.tokens.len() as u32;
        self.tokens.resize(number as usize + 1, 0);
        for (born, _, dropped) in log.lives().filter(|&(_, _, dropped)| dropped >= first) {
            if let Some(token) = self.tokens.get_mut(dropped as usize) {
                *token = with_drop(*token, dropped - born);
            }
        }
        // The last one is that of the allocation which ends the rest.
        self.pending = self.tokens.pop().unwrap_or_default();
        // Windows from before the rest are many iterations away.
        self.windows.begin(std::iter::empty());
        self.cycles.begin_again(number);
    }

    /// Follows what there is to follow, and the period of a window that came before. Returns what is found.
    #[inline(never)]
    fn look(&mut self, log: &Log, number: u32, seen: [u32; 2]) -> Option<Found> {
        self.follow(log, number);
        let mut known = None;
        for value in seen.into_iter().filter(|&value| value > 0) {
            match known_place(value) {
                Some((place, position)) => known = Some(Found::Known { place, position: position + 1 }),
                // The hash by sizes and that by drops may be alike. Then both are of this window.
                None if value > number => {}
                None => self.propose(log, number, number + 1 - value),
            }
        }
        let confirmed = self.confirmed(number);
        known.or(confirmed)
    }

    /// The loop that was found, if its next iteration begins now, and it has repeated up to now.
    fn confirmed(&mut self, number: u32) -> Option<Found> {
        let (period, length, next) = self.found?;
        if !self.candidates.iter().flatten().any(|candidate| candidate.period == period) {
            self.found = None;
            return None;
        }
        (next == number + 1).then_some(Found::Loop { length })
    }

    /// Compares the allocation with what each candidate expects.
    fn follow(&mut self, log: &Log, number: u32) {
        for place in 0..CANDIDATES {
            let Some(candidate) = &mut self.candidates[place] else { continue };
            if !candidate.goes_on(log, &self.tokens, number) {
                self.candidates[place] = None;
            } else if candidate.run(number) >= candidate.wanted {
                self.judge(log, place, number);
            }
        }
        self.follows = self.candidates.iter().any(Option::is_some);
    }

    /// Decides about a candidate that has held for long enough.
    fn judge(&mut self, log: &Log, place: usize, number: u32) {
        let Some(candidate) = &mut self.candidates[place] else { return };
        let (period, run, first) = (candidate.period, candidate.run(number), candidate.first());
        // The loop is most of what the entry did so far, unless its iterations are cycles.
        let least = LEAST.max(log.len() / 2).saturating_sub(period);
        let twice = LEAST.saturating_sub(period).max(period).min(least);
        candidate.wanted = if run < twice { twice } else { least.min(run + period) };
        if run < twice {
            return;
        }
        if self.cycles.look_at_period(log, period) {
            candidate.wanted = run + period;
            return;
        }
        if run < least {
            return;
        }
        match iteration::judge(log, period, run, first) {
            Verdict::Loop { length, next } => {
                candidate.wanted = u32::MAX;
                self.found = self.found.or(Some((period, length, next)));
            }
            Verdict::Later(wanted) => candidate.wanted = wanted,
            Verdict::Never => self.refuse(place, number),
        }
    }

    fn refuse(&mut self, place: usize, number: u32) {
        if let Some(Candidate { period, .. }) = self.candidates[place].take() {
            self.refused[self.next_refused] = (period, number.saturating_add(period.saturating_mul(AGAIN)));
            self.next_refused = (self.next_refused + 1) % REFUSED;
        }
    }

    /// Follows a period as a candidate, in place of the one that repeats for the shortest time.
    fn propose(&mut self, log: &Log, number: u32, period: u32) {
        let (least, until) = self.cycles.least;
        // A loop around a known one is searched.
        let is_skipped = period < least && number < until;
        if is_skipped || !self.is_new(number, period) {
            return;
        }
        let most = number + 1 - self.spent;
        let (candidate, steps) = Candidate::new(log, &self.tokens, number, period, most);
        self.spent += steps.min(most);
        let run = |held: &Option<Candidate>| held.map_or(0, |held| held.run(number));
        if let Some(weakest) = self.candidates.iter_mut().min_by_key(|held| run(held))
            && candidate.run(number) > run(weakest)
        {
            (*weakest, self.follows) = (Some(candidate), true);
        }
    }

    /// Whether a period is neither followed nor refused.
    fn is_new(&self, number: u32, period: u32) -> bool {
        let is_followed = self.candidates.iter().flatten().any(|candidate| candidate.period == period);
        let is_refused = self.refused.iter().any(|&(refused, until)| refused == period && number < until);
        !is_followed && !is_refused
    }

    /// The windows of the last two iterations in this log, of `length` allocations each, by which the loop is known later.
    pub fn known(&self, log: &Log, length: u32) -> Known {
        let from = log.len().saturating_sub(length.saturating_mul(2).saturating_add(WINDOW as u32));
        let bytes = log.lives().skip(from as usize).map(|(_, bytes, _)| bytes);
        let allocations: Vec<_> = bytes.zip(self.tokens.iter().skip(from as usize).copied()).collect();
        Known::of(allocations.into_iter(), length as usize)
    }
}
