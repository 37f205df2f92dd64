//! What entries of the same order have in common: for each position the bytes and the lifetime that hold all of them.
//!
//! Orders are the same if they have as many allocations and their envelope needs hardly more memory than the larger one
//! of them: sizes may vary, and drops may change places. To find that two entries have nothing in common allocates nothing
//! ([`Scratch`]), since a program that never repeats itself is compared again and again.
//!
//! Sizes that grow have places for entries to come ([`ahead`]), and what outlives its entry is a ring's or goes beside ([`arranged`]).

mod ahead;
mod arranged;
#[cfg(test)]
mod tests;

use ahead::Ahead;

use super::log::{Log, Logged, OUTLIVES};
use crate::layout::Buffer;

/// Sizes and lifetimes for each allocation of an entry, in order.
#[derive(Clone, Debug, Default)]
pub struct Envelope {
    positions: Vec<Expected>,
    /// How often entries made it another one.
    changes: u32,
    ahead: Ahead,
}

/// Room for comparisons, kept from one to the next.
#[derive(Debug, Default)]
pub struct Scratch {
    positions: Vec<Expected>,
    /// By time the bytes whose lives end then.
    ends: Vec<u128>,
}

/// What is expected at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// The fewest bytes that were seen here.
    pub(super) least: u64,
    /// The most, or more where sizes grow.
    pub(super) most: u64,
    /// By how much it grows from entry to entry; 0 if it does not, or that is not known.
    step: u64,
    kind: Kind,
    /// How often it was found to end within its entry, after it had outlived it.
    flips: u8,
    /// The number of allocations before its drop, in the entry that the kind says.
    upper: u32,
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// In its own entry.
    Within,
    /// In the next one, before its successor is born: it wraps around the seam of the entries.
    Wraps,
    /// Later, so that it overlaps its successor: it is carried by a ring.
    Carried,
    /// In a later entry; in which is not known.
    Outlives,
    /// In the next entry, but a place would take more memory than it is worth: served beside the plan.
    Beside,
}

/// What outlived its entry and then did not, so many times, does so by turns: it is carried for good.
const FLIPS: u8 = 3;

/// Positions begin at multiples of this many bytes, as blocks of a range do, and arrays of CUDA's own allocator.
pub(super) const ALIGN: u64 = 256;
/// So many bytes of positions and more are not planned, so that offsets fit [`u32`] in units of [`ALIGN`].
const MOST_PLANNED: u128 = ALIGN as u128 * (1 << 31);
/// The share of the larger entry's bound that an envelope of two may need more. With less, sizes that vary a little make orders
/// of their own; with more, a plan reserves for what never is in use at once: 1/32 is 3%.
const SAME_ORDER_SHARE: u64 = 32;
/// Changes of an order before what was seen to outlive its entry is carried for good. The first entries of a program often keep
/// what later ones do not; what goes on changing does so by turns, and without an end to it each of those entries would be
/// recorded and laid out again.
const CHANGES: u32 = 256;
/// The factor by which sizes may be below the least or above the most that was seen, and still be taken for the same position
/// in another size: as when a batch or a sequence is up to four times as long.
const VARIATION: u64 = 4;

impl Envelope {
    /// The envelope of two entries, of which the newer tells what became of arrays of the entry before it; `None` if their
    /// orders are not the same, or nothing of them can be served.
    pub fn of(one: &Log, newer: &Log, scratch: &mut Scratch) -> Option<Envelope> {
        if one.stream() != newer.stream() || one.allocations().len() != newer.allocations().len() {
            return None;
        }
        let expected =
            |log: &Log, place: usize| Expected::of(&log.allocations()[place], place, newer.end_of_before(place));
        let (of_one, of_newer) = (|place| expected(one, place), |place| expected(newer, place));
        let places = 0..one.allocations().len();
        let bound = scratch.bound(places.clone().map(of_one)).max(scratch.bound(places.clone().map(of_newer)));
        scratch.envelope(places.map(|place| of_one(place).merge(&of_newer(place), false)), bound)
    }

    /// Whether an entry has this order, with sizes that were seen before, and no array of it lives longer or needs a place
    /// that it has not.
    pub fn holds(&self, log: &Log) -> bool {
        let holds = |(place, (expected, logged)): (usize, (&Expected, &Logged))| {
            expected.has(logged.bytes) && self.may_end(expected, &Expected::of(logged, place, log.end_of_before(place)))
        };
        let pairs = self.positions.iter().zip(log.allocations());
        log.allocations().len() == self.positions.len() && pairs.enumerate().all(holds)
    }

    /// Whether a life of this position may end like that.
    fn may_end(&self, expected: &Expected, seen: &Expected) -> bool {
        match (expected.kind, seen.kind) {
            // A life that ends where it is not known may be the one that was expected.
            (Kind::Wraps | Kind::Carried, Kind::Outlives) | (Kind::Carried, Kind::Carried) => true,
            (Kind::Wraps, Kind::Within) => true,
            (Kind::Within, Kind::Within) | (Kind::Wraps, Kind::Wraps) => seen.upper <= expected.upper,
            // An end within the entry is news, as long as news of what outlives its entry are heard; and so is the end of
            // what was not known to have one.
            (Kind::Carried | Kind::Outlives, Kind::Within | Kind::Wraps) | (Kind::Outlives, Kind::Carried) => {
                !self.may_change()
            }
            (Kind::Outlives, Kind::Outlives) => true,
            (Kind::Within | Kind::Wraps | Kind::Beside, _) | (_, Kind::Beside) => false,
        }
    }

    /// Whether entries may still tell what outlives its entry, and what does not: some do by turns.
    pub fn may_change(&self) -> bool {
        self.changes < CHANGES
    }

    /// Whether an entry of this order begins with an allocation like this.
    pub fn begins_with(&self, bytes: u64) -> bool {
        self.at(0).is_some_and(|expected| expected.has(bytes))
    }

    /// The number of positions.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether an envelope is empty")]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// The position, if there is one.
    pub(super) fn at(&self, position: usize) -> Option<&Expected> {
        self.positions.get(position)
    }

    /// The fewest and the most bytes that are expected at a position.
    pub fn sizes_at(&self, position: usize) -> Option<(u64, u64)> {
        self.at(position).map(|expected| (expected.least, expected.most))
    }

    /// Has a position carried that was not gone when its place was needed. Returns whether it had a place.
    pub fn carry(&mut self, position: usize) -> bool {
        let Some(expected) = self.positions.get_mut(position).filter(|expected| expected.is_planned()) else {
            return false;
        };
        (expected.kind, expected.upper) = (Kind::Outlives, OUTLIVES);
        true
    }

    /// Lets a position hold `bytes` too. Returns whether it was smaller before.
    pub fn widen(&mut self, position: usize, bytes: u64) -> bool {
        // So the sizes of an envelope sum to less than 64 bits hold, however often it is widened.
        if u128::from(bytes) >= MOST_PLANNED {
            return false;
        }
        let Some(expected) = self.positions.get_mut(position) else { return false };
        let was_smaller = expected.most < bytes;
        expected.least = expected.least.min(bytes);
        expected.most = expected.most.max(bytes);
        self.ahead.is_overtaken |= was_smaller && expected.grows();
        was_smaller
    }

    /// The envelope of this order that holds an entry too; `None` if that has another order.
    pub fn absorb(&self, log: &Log, scratch: &mut Scratch) -> Option<Envelope> {
        if self.len() != log.allocations().len() {
            return None;
        }
        let seen = |place: usize| Expected::of(&log.allocations()[place], place, log.end_of_before(place));
        let places = 0..self.len();
        let bound = scratch.bound(self.positions.iter().copied()).max(scratch.bound(places.clone().map(seen)));
        let both = places.map(|place| self.positions[place].merge(&seen(place), !self.may_change()));
        scratch.envelope(both, bound).map(|both| both.follows(self))
    }

    /// The envelope of both; `None` if their orders are not the same.
    pub fn merge(&self, other: &Envelope) -> Option<Envelope> {
        if self.len() != other.len() {
            return None;
        }
        let (mut scratch, pairs) = (Scratch::default(), self.positions.iter().zip(&other.positions));
        let bound = self.bound().max(other.bound());
        let both = scratch.envelope(pairs.map(|(one, other)| one.merge(other, !self.may_change())), bound)?;
        Some(both.follows(self))
    }

    /// In the place of this one, as it holds another entry too.
    fn follows(self, before: &Envelope) -> Envelope {
        let ahead = before.ahead.seen(before.positions.iter().zip(&self.positions));
        Envelope { changes: before.changes + 1, ahead, ..self }
    }

    /// Whether a layout could hold it, which it may have outgrown.
    pub fn is_plannable(&self) -> bool {
        is_plannable(&self.positions)
    }

    /// The most bytes that are in use at once if each position takes all that it may.
    pub fn bound(&self) -> u64 {
        Scratch::default().bound(self.positions.iter().copied())
    }

    /// How many positions have a place or are carried, and the most bytes that each may take, together.
    pub(super) fn places(&self) -> (u64, u64) {
        let serve = self.positions.iter().filter(|expected| expected.is_planned() || expected.is_carried());
        serve.fold((0, 0), |(number, bytes), expected| (number + 1, bytes.saturating_add(expected.most)))
    }

    /// What a layout is made of: a buffer for each position, of no size where nothing has a place.
    pub fn buffers(&self) -> Vec<Buffer> {
        let buffer = |(position, expected): (usize, &Expected)| match expected.is_planned() {
            true => {
                let size = expected.most.next_multiple_of(ALIGN);
                Buffer { lower: position as u32, upper: expected.upper, size }
            }
            false => Buffer { lower: 0, upper: 0, size: 0 },
        };
        self.positions.iter().enumerate().map(buffer).collect()
    }
}

impl Scratch {
    /// The envelope of these positions, if it needs hardly more than `bound` bytes, and can be laid out.
    fn envelope(&mut self, positions: impl Iterator<Item = Expected>, bound: u64) -> Option<Envelope> {
        let mut all = std::mem::take(&mut self.positions);
        all.clear();
        all.extend(positions);
        let is_same =
            is_plannable(&all) && self.bound(all.iter().copied()) <= bound.saturating_add(bound / SAME_ORDER_SHARE);
        let envelope = is_same.then(|| Envelope { positions: all.clone(), changes: 0, ahead: Ahead::default() });
        self.positions = all;
        envelope
    }

    /// The most bytes that are in use at once in the circle of entries, but for what has no place: no layout is lower.
    fn bound(&mut self, lives: impl ExactSizeIterator<Item = Expected> + Clone) -> u64 {
        let entry = lives.len();
        self.ends.clear();
        self.ends.resize(entry + 1, 0);
        let mut load = 0u128;
        let wrapped = lives.clone().filter_map(|life| Some((life.most, life.end(entry)?.checked_sub(entry as u32)?)));
        for (bytes, end) in wrapped.filter(|&(_, end)| end > 0) {
            load += u128::from(bytes);
            self.ends[end as usize] += u128::from(bytes);
        }
        let mut peak = load;
        for (position, life) in lives.enumerate() {
            load -= self.ends[position];
            if let Some(end) = life.end(entry) {
                load += u128::from(life.most);
                let here = self.ends.get_mut(end as usize);
                here.into_iter().for_each(|ends| *ends += u128::from(life.most));
                peak = peak.max(load);
            }
        }
        u64::try_from(peak).unwrap_or(u64::MAX)
    }
}

/// Whether there is anything to serve, and a layout could hold it.
fn is_plannable(positions: &[Expected]) -> bool {
    are_plannable(positions.iter().map(|expected| expected.most))
}

fn are_plannable(sizes: impl Iterator<Item = u64>) -> bool {
    let rounded = sizes.map(|bytes| u128::from(bytes).next_multiple_of(u128::from(ALIGN)));
    (1..MOST_PLANNED).contains(&rounded.sum::<u128>())
}

impl Log {
    /// Whether a layout could hold the entry.
    pub fn is_plannable(&self) -> bool {
        are_plannable(self.allocations().iter().map(|logged| logged.bytes))
    }
}

impl Expected {
    /// What is expected after one entry. `end` tells when the array of this place of the entry before was dropped in it.
    fn of(logged: &Logged, place: usize, end: Option<u32>) -> Expected {
        let (kind, upper) = match (logged.upper, end) {
            (OUTLIVES, Some(end)) if end as usize <= place => (Kind::Wraps, end),
            (OUTLIVES, Some(end)) => (Kind::Carried, end),
            (OUTLIVES, None) => (Kind::Outlives, OUTLIVES),
            (upper, _) => (Kind::Within, upper),
        };
        Expected { least: logged.bytes, most: logged.bytes, step: 0, kind, flips: 0, upper }
    }

    /// Where it ends, counted on from its own entry of so many allocations: beyond that, if it wraps. `None` if it has no place.
    fn end(&self, entry: usize) -> Option<u32> {
        match self.kind {
            Kind::Within => Some(self.upper),
            Kind::Wraps => Some(entry as u32 + self.upper),
            Kind::Carried | Kind::Outlives | Kind::Beside => None,
        }
    }

    /// Whether entries differ in the bytes.
    pub(super) fn varies(&self) -> bool {
        self.least < self.most
    }

    /// Whether it is known to grow from entry to entry.
    fn grows(&self) -> bool {
        self.step > 0
    }

    /// Whether so many bytes may be this position's in another entry.
    pub(super) fn is_like(&self, bytes: u64) -> bool {
        bytes >= self.least / VARIATION && bytes / VARIATION <= self.most
    }

    /// Whether this many bytes were seen here, or as many and fewer.
    pub(super) fn has(&self, bytes: u64) -> bool {
        (self.least..=self.most).contains(&bytes)
    }

    /// What holds for both, of which `newer` was seen later. Once the order `is_settled`, what was ever carried is.
    fn merge(&self, newer: &Expected, is_settled: bool) -> Expected {
        let mut flips = self.flips.max(newer.flips);
        let longer = |kind| (kind, self.upper.max(newer.upper));
        let (kind, upper) = match (self.kind, newer.kind) {
            (Kind::Within, Kind::Within) | (Kind::Wraps, Kind::Wraps) | (Kind::Carried, Kind::Carried) => {
                longer(self.kind)
            }
            // Where a life ends that wraps it ends within its own entry too, if it is short.
            (Kind::Wraps, Kind::Within) | (Kind::Wraps | Kind::Carried, Kind::Outlives) => (self.kind, self.upper),
            (Kind::Carried | Kind::Outlives, Kind::Within | Kind::Wraps) if is_settled || flips == FLIPS => {
                (self.kind, self.upper)
            }
            (Kind::Carried | Kind::Outlives, Kind::Within | Kind::Wraps) => {
                flips += 1;
                (newer.kind, newer.upper)
            }
            _ => (newer.kind, newer.upper),
        };
        let (least, most) = (self.least.min(newer.least), self.most.max(newer.most));
        Expected { least, most, step: self.step.max(newer.step), kind, flips, upper }
    }

    /// Whether the ring serves it.
    pub(super) fn is_carried(&self) -> bool {
        matches!(self.kind, Kind::Carried | Kind::Outlives)
    }

    /// Whether the plan has a place for it; what is alive when its successor is born is served beside it.
    pub(super) fn is_planned(&self) -> bool {
        self.kind == Kind::Within
    }
}
