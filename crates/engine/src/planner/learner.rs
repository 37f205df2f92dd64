//! Decides when to record entries, and which recorded entries have the same order.
//!
//! A scope that never settles costs a bounded number of recordings: after [`TRIES`] recordings that led to nothing, recording
//! pauses. Each pause is twice as long as the one before.

use std::collections::VecDeque;

use super::backoff::{Backoff, Pace};
use gpucache_plan::entries::{Envelope, Growth, Log};

/// The recordings, and their results.
#[derive(Debug, Default)]
pub(super) struct Learner {
    pub(super) log: Log,
    /// The first allocations of the next entry, which were recorded with this one.
    tail: Option<Log>,
    /// Recorded entries that no other entry resembles so far. The latest is last.
    candidates: VecDeque<Log>,
    /// The sizes that grew in the latest recorded entries.
    pub(super) growth: Growth,
    pub(super) is_recording: bool,
    /// The number of allocations of the entry before, if that entry was recorded.
    before: Option<u32>,
    /// Recordings since the last pause that led to nothing.
    in_vain: u64,
    /// The number that the first allocation of the entry before had when it was recorded: more than 0 if more than that entry was
    /// recorded with it.
    pub(super) first_before: u32,
    /// The same of this entry.
    first: u32,
    /// The number of the current entry.
    entry: u64,
    pauses: Backoff,
    /// Entries that were recorded beside a partial plan, and how many of these had the order of an entry shortly before.
    beside_part: (u64, u64),
    /// Whether so many had that no partial plan is made until recording pauses.
    has_orders: bool,
    /// Whether the entry is known to come again, so that its recording alone makes a plan.
    pub(super) trusts_one: bool,
    /// Whether several orders are known to take turns: those of the keys of graphs, or of programs.
    pub(super) has_turns: bool,
}

/// Each recorded entry is compared with this many before. With 5, orders that come at random are found sooner. But detectors whose entries are
/// alike now and then had no plan at all, since a chance order keeps partial plans away.
const ORDERS: usize = 3;
/// The same number if orders take turns: a server whose graphs use the plans has about as many kinds of work.
const ORDERS_IN_TURN: usize = 16;
/// Entries without a common order are compared for a common part once in so many recordings: as many as are compared. With
/// fewer, allocations would look regular that came again by chance.
const PARTIAL: u64 = 4;
/// Beside a partial plan, so many recorded entries are looked at together.
const LOOKED_AT: u64 = 16;
/// If at least so many of these have the order of an entry shortly before, plans of whole entries serve better. With six, made-up programs reserved
/// 0.07 points more.
const AGAIN: u64 = 5;
/// Recording pauses after this many recordings that led to nothing: several rounds of alternating orders, after some entries of
/// warm-up.
const TRIES: u64 = 16;
/// The first pause is as long as four such series of recordings. The longest is some hundred thousand entries. Nobody has to wait
/// for its end: a program that changes its order calls `invalidate`.
const PAUSES: Pace = Pace { first: 4 * TRIES, factor: 2, longest: 1 << 18 };

/// The parts of entries that may have a plan, if whole entries have none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RegularPart {
    None,
    /// The regular part of entries whose allocations come in one order. Only sizes vary.
    InOrder,
    Any,
}

impl Learner {
    /// Begins an entry. Records it if `is_wanted`, unless recording pauses.
    #[inline(always)]
    pub(super) fn begin(&mut self, is_wanted: bool) {
        self.entry = self.entry.saturating_add(1);
        self.is_recording = is_wanted && !self.has_stopped();
        self.first_before = std::mem::take(&mut self.first);
        let tail = self.tail.take();
        if self.is_recording {
            self.log.begin_entry(self.before);
            tail.filter(|_| self.before.is_some()).iter().for_each(|tail| self.log.resume(tail));
        }
    }

    /// Takes the last `count` allocations for the first ones of the next entry.
    pub(super) fn end_before(&mut self, count: u32) {
        self.tail = self.is_recording.then(|| self.log.split_off(count));
    }

    /// Records a part of the entry, which is not learned.
    pub(super) fn record_part(&mut self) {
        self.is_recording = false;
        self.log.begin_entry(None);
    }

    /// Takes the last two iterations of a loop for the last two entries. The log ends with them.
    pub(super) fn split(&mut self, length: u32) {
        let next = self.log.len();
        let (one, other) = (self.log.part(next - 2 * length, length), self.log.part_after(next - length, length));
        self.growth.observe(&one);
        if self.candidates.len() >= self.orders() {
            self.candidates.pop_front();
        }
        self.candidates.push_back(one);
        (self.log, self.is_recording, self.first) = (other, true, next - length);
    }

    /// Notes that the entry which ends teaches nothing.
    pub(super) fn forget_entry(&mut self) {
        (self.before, self.first, self.tail) = (None, 0, None);
    }

    pub(super) fn has_stopped(&self) -> bool {
        !self.pauses.is_over(self.entry)
    }

    /// Notes that an entry went by its plan, so failed recordings count less.
    pub(super) fn went_well(&mut self) {
        self.in_vain = self.in_vain.saturating_sub(1);
        self.pauses.halve(self.entry);
    }

    /// Ends a pause of recording, since the caller limits the recordings itself.
    pub(super) fn wake(&mut self) {
        self.in_vain = 0;
        self.pauses.end();
    }

    /// Pauses recording for at least this many entries.
    pub(super) fn rest(&mut self, entries: u64) {
        self.pauses.wait_for(self.entry, entries);
    }

    /// Notes that the entry is over.
    pub(super) fn note_end(&mut self) {
        self.before = self.recorded().map(Log::len);
        if self.before.is_some() {
            self.growth.observe(&self.log);
        }
    }

    /// The latest entry that no other entry resembles so far.
    pub(super) fn latest(&self) -> Option<&Log> {
        self.candidates.back()
    }

    /// The log of the current entry, if it is recorded and complete.
    pub(super) fn recorded(&self) -> Option<&Log> {
        (self.is_recording && self.log.is_whole()).then_some(&self.log)
    }

    /// Ends the entry. Returns the common envelope of this entry and an earlier one of the same order, if one of them can be laid
    /// out.
    ///
    /// If none has that order, the last entries may have a part in common. It has an envelope if it is such a `part`.
    pub(super) fn end(&mut self, part: RegularPart) -> Option<Envelope> {
        self.recorded()?;
        if let Some((place, envelope)) = self.resembling() {
            self.candidates.remove(place);
            self.in_vain = 0;
            return Some(envelope);
        }
        if let Some(envelope) = self.trusts_one.then(|| Envelope::of(&self.log, &self.log)).flatten() {
            self.in_vain = 0;
            return Some(envelope);
        }
        let is_due = part != RegularPart::None && !self.has_orders && self.in_vain % PARTIAL == PARTIAL - 1;
        let partial = is_due.then(|| self.regular_part(part == RegularPart::InOrder)).flatten();
        if partial.is_none() {
            self.keep();
            self.count_in_vain();
        }
        partial
    }

    /// The place of the latest kept entry that has the order of this one, and their envelope.
    fn resembling(&self) -> Option<(usize, Envelope)> {
        let same = |(place, other): (usize, &Log)| Some((place, Envelope::of(other, &self.log)?));
        self.candidates.iter().enumerate().rev().find_map(same)
    }

    /// Looks at an entry beside a partial plan. Returns whether so many of these have orders that come again that the plan should go.
    pub(super) fn finds_orders(&mut self) -> bool {
        if self.recorded().is_none() {
            return false;
        }
        let (looked_at, again) = self.beside_part;
        self.beside_part = (looked_at + 1, again + u64::from(self.resembling().is_some()));
        self.has_orders = self.beside_part.1 >= AGAIN;
        if self.has_orders || self.beside_part.0 >= LOOKED_AT {
            self.beside_part = (0, 0);
        }
        self.has_orders
    }

    /// Keeps the entry for later ones, if it is recorded and not yet kept.
    pub(super) fn keep_recorded(&mut self) {
        if self.recorded().is_some() {
            self.keep();
        }
    }

    /// The envelope of what the last entries have in common. If it `is_ordered`, their allocations have to come in one order.
    fn regular_part(&mut self, is_ordered: bool) -> Option<Envelope> {
        let latest = (self.candidates.len() + 1).saturating_sub(PARTIAL as usize);
        // Where orders differ, scopes inside come in no order that a plan could follow.
        let logs: Vec<&Log> = self.candidates.iter().skip(latest).chain([&self.log]).collect();
        let plain: Vec<Option<Log>> = logs.iter().map(|log| log.without_inner()).collect();
        let logs: Vec<&Log> = plain.iter().zip(&logs).map(|(plain, log)| plain.as_ref().unwrap_or(log)).collect();
        let envelope = Envelope::of_regular_part(&logs, is_ordered)?;
        self.candidates.clear();
        (self.in_vain, self.beside_part) = (0, (0, 0));
        Some(envelope)
    }

    fn orders(&self) -> usize {
        if self.has_turns { ORDERS_IN_TURN } else { ORDERS }
    }

    /// Keeps the log for later entries, in place of the oldest log.
    fn keep(&mut self) {
        let full = self.candidates.len() >= self.orders();
        let oldest = if full { self.candidates.pop_front() } else { None };
        self.candidates.push_back(std::mem::replace(&mut self.log, oldest.unwrap_or_default()));
        self.is_recording = false;
    }

    /// Counts a recording that led to nothing. A recurring order counts too, if it cannot be laid out.
    fn count_in_vain(&mut self) {
        self.in_vain += 1;
        if self.in_vain >= TRIES {
            self.pauses.tried(self.entry, PAUSES);
            (self.in_vain, self.has_orders) = (TRIES - ORDERS as u64, false);
            // The logs keep their memory for the entries after the pause.
            self.candidates.iter_mut().for_each(Log::clear);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins an entry with these allocations. Returns whether it is recorded.
    fn record(learner: &mut Learner, sizes: &[u64]) -> bool {
        learner.begin(true);
        if learner.is_recording {
            sizes.iter().for_each(|&bytes| {
                let number = learner.log.allocated(0, bytes).unwrap();
                learner.log.dropped(number);
            });
        }
        learner.is_recording
    }

    fn entry(learner: &mut Learner, sizes: &[u64]) -> Option<Envelope> {
        record(learner, sizes);
        learner.end(RegularPart::None)
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
            assert_eq!(learner.end(RegularPart::None).is_some(), is_again);
        }
    }

    /// Of so many entries beside a partial plan, the one in which the plan should go. Their orders come at random.
    fn gives_way(orders: usize, entries: usize, rng: &mut fastrand::Rng) -> Option<usize> {
        let mut learner = Learner::default();
        (0..entries).find(|_| {
            record(&mut learner, &vec![256; 1 + rng.usize(..orders)]);
            let has_orders = learner.finds_orders();
            learner.keep_recorded();
            has_orders
        })
    }

    #[test]
    fn a_partial_plan_gives_way_if_few_orders_come_again() {
        let mut rng = fastrand::Rng::with_seed(1);
        let share = |orders| (0..1000).filter(|_| gives_way(orders, 16, &mut rng).is_some()).count();
        let shares = [4, 8, 20, 100].map(share);
        assert!(shares[0] > 900 && shares[1] > 400 && shares[2] < 50 && shares[3] == 0, "{shares:?}");
    }

    #[test]
    fn a_scope_that_never_settles_is_hardly_recorded() {
        let mut learner = Learner::default();
        let mut recorded = 0;
        for length in 1..10_000 {
            recorded += u64::from(record(&mut learner, &vec![256; length % 200 + length / 200]));
            assert!(learner.end(RegularPart::None).is_none() || length > 200);
            learner.candidates.clear();
        }
        assert!((TRIES..100).contains(&recorded), "{recorded}");
        assert!(learner.has_stopped());
    }
}
