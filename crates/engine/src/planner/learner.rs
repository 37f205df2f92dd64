//! When to record entries, and which of them have the same order.
//!
//! A scope that never settles costs a bounded number of recordings: after [`TRIES`] in vain recording pauses, each time
//! twice as long.

use std::collections::VecDeque;

use super::backoff::{Backoff, Pace};
use gpucache_plan::entries::{Envelope, Growth, Log, Scratch};

/// What was recorded, and what it led to.
#[derive(Debug, Default)]
pub(super) struct Learner {
    pub(super) log: Log,
    /// Entries that no other one resembles yet, the latest last.
    candidates: VecDeque<Log>,
    /// What grew in the entries that were recorded last.
    pub(super) growth: Growth,
    pub(super) is_recording: bool,
    /// Allocations of the entry before, if that was recorded.
    before: Option<u32>,
    /// Recordings in vain since the last pause.
    in_vain: u64,
    /// Counts entries.
    entry: u64,
    pauses: Backoff,
}

/// Orders that may alternate and are still recognised, as those of training, evaluation and a step that logs do. Each entry is
/// compared with so many.
const ORDERS: usize = 3;
/// Recordings in vain after which recording pauses: several rounds of orders that alternate, with some entries that warm up.
const TRIES: u64 = 16;
/// The first pause is as long as four such series of recordings, and the longest as some hundred thousand entries, which nobody waits
/// for: a program that changes its way begins anew by an invalidation.
const PAUSES: Pace = Pace { first: 4 * TRIES, factor: 2, longest: 1 << 18 };

impl Learner {
    /// Begins an entry, which is recorded if that is wanted and no pause holds.
    pub(super) fn begin(&mut self, is_wanted: bool) {
        self.entry = self.entry.saturating_add(1);
        self.is_recording = is_wanted && !self.has_stopped();
        if self.is_recording {
            self.log.begin_entry(self.before);
        }
    }

    pub(super) fn has_stopped(&self) -> bool {
        !self.pauses.is_over(self.entry)
    }

    /// An entry went by its plan: what was in vain counts less.
    pub(super) fn went_well(&mut self) {
        self.in_vain = self.in_vain.saturating_sub(1);
        self.pauses.halve(self.entry);
    }

    /// Lets recording rest for so many entries.
    pub(super) fn rest(&mut self, entries: u64) {
        self.pauses.wait_for(self.entry, entries);
    }

    /// The entry is over.
    pub(super) fn note_end(&mut self) {
        self.before = self.recorded().map(Log::len);
        if self.before.is_some() {
            self.growth.observe(&self.log);
        }
    }

    /// The latest entry that no other one resembles yet.
    pub(super) fn latest(&self) -> Option<&Log> {
        self.candidates.back()
    }

    /// The entry that was recorded whole.
    pub(super) fn recorded(&self) -> Option<&Log> {
        (self.is_recording && self.log.is_whole()).then_some(&self.log)
    }

    /// Ends the entry: what it has in common with an earlier one of the same order, if there is one that can be laid out.
    pub(super) fn end(&mut self, scratch: &mut Scratch) -> Option<Envelope> {
        let log = self.recorded()?;
        let same = |(place, other): (usize, &Log)| Some((place, Envelope::of(other, log, scratch)?));
        let Some((place, envelope)) = self.candidates.iter().enumerate().rev().find_map(same) else {
            self.keep();
            self.count_in_vain();
            return None;
        };
        self.candidates.remove(place);
        self.in_vain = 0;
        Some(envelope)
    }

    /// Keeps the log for later entries, in the place of the oldest.
    fn keep(&mut self) {
        let full = self.candidates.len() == ORDERS;
        let oldest = if full { self.candidates.pop_front() } else { None };
        self.candidates.push_back(std::mem::replace(&mut self.log, oldest.unwrap_or_default()));
    }

    /// A recording led to nothing, as an order that came again does of which nothing can be laid out.
    fn count_in_vain(&mut self) {
        self.in_vain += 1;
        if self.in_vain >= TRIES {
            self.pauses.tried(self.entry, PAUSES);
            self.in_vain = TRIES - ORDERS as u64;
            // Their memory stays, for those that come after the pause.
            self.candidates.iter_mut().for_each(Log::clear);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(learner: &mut Learner, sizes: &[u64]) -> Option<Envelope> {
        learner.begin(true);
        if learner.is_recording {
            sizes.iter().for_each(|&bytes| {
                let number = learner.log.allocated(0, bytes).unwrap();
                learner.log.dropped(number);
            });
        }
        learner.end(&mut Scratch::default())
    }

    #[test]
    fn orders_that_alternate_are_recognised() {
        let mut learner = Learner::default();
        let orders = [&[100][..], &[100, 200], &[100, 200, 300]];
        assert!(orders.iter().all(|sizes| entry(&mut learner, sizes).is_none()));
        assert!(orders.iter().all(|sizes| entry(&mut learner, sizes).is_some()));
    }

    #[test]
    fn an_entry_without_allocations_is_no_try() {
        let mut learner = Learner::default();
        assert!((0..1000).all(|_| entry(&mut learner, &[]).is_none() && !learner.has_stopped()));
    }

    #[test]
    fn an_order_of_which_nothing_ends_within_its_entry_is_one() {
        let mut learner = Learner::default();
        for is_again in [false, true] {
            learner.begin(true);
            learner.log.allocated(0, 256);
            assert_eq!(learner.end(&mut Scratch::default()).is_some(), is_again);
        }
    }

    #[test]
    fn a_scope_that_never_settles_is_hardly_recorded() {
        let mut learner = Learner::default();
        let mut recorded = 0;
        for length in 1..10_000 {
            assert!(entry(&mut learner, &vec![256; length % 200 + length / 200]).is_none() || length > 200);
            recorded += u64::from(learner.is_recording);
            learner.candidates.clear();
        }
        assert!((TRIES..100).contains(&recorded), "{recorded}");
        assert!(learner.has_stopped());
    }
}
