//! The envelope of entries of the same order: for each position the bytes and the lifetime that cover all of them.
//!
//! Two orders are the same if they have equally many allocations, and their envelope needs hardly more memory than the larger of
//! them. So sizes may vary, and drops may change places.
//!
//! Positions whose sizes grow get places for entries to come ([`ahead`]). An array that outlives its entry is served by a ring or
//! beside the plan ([`arranged`]).

mod ahead;
mod arranged;
mod beginning;
mod inner;
mod partial;
mod scaled;
mod shared;
#[cfg(test)]
mod tests;

pub(super) use partial::{FAR, LONGEST_ROW, Room, least_served};

use super::log::{Log, Logged, OUTLIVES};
use crate::layout::Buffer;

/// Sizes and lifetimes for each allocation of an entry, in order.
#[derive(Clone, Debug, Default)]
pub struct Envelope {
    positions: Vec<Expected>,
    /// How often entries changed it.
    changes: u32,
    /// The number of entries by which growing positions were laid out ahead the last time.
    entries_ahead: u64,
    /// Whether a growing position was larger than expected since then.
    is_overtaken: bool,
    /// Whether the first allocation told the sizes of the others in the last entry that showed it; `None` if none did.
    is_told_by_first: Option<bool>,
    /// The most bytes of a first allocation in the entries that were recorded.
    first_recorded: u64,
    /// If only a part of each entry is regular: the rooms for the rest, in order, and how many allocations in a row show the position of an entry.
    rooms: Box<[Room]>,
    row: Option<u32>,
}

/// The sizes and the lifetime that are expected at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// The fewest bytes that were seen here, or fewer in a partial plan.
    pub(super) least: u64,
    /// The most bytes that were seen here, or more if sizes grow.
    pub(super) most: u64,
    /// By how many bytes it grows from entry to entry; 0 if it does not grow, or this is not known.
    step: u64,
    /// Whether an entry had fewer bytes here than all entries before it.
    shrank: bool,
    kind: Kind,
    /// How often it ended within its entry after it had outlived an earlier one.
    flips: u8,
    /// The number of allocations before its drop, in the entry that `kind` says.
    pub(super) upper: u32,
    /// The number of the scope inside this one whose arena it is; 0 for any other allocation.
    inner: u32,
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// In its own entry.
    Within,
    /// In the next entry, before its successor is born: it wraps around the seam of the entries.
    Wraps,
    /// Later, so that it overlaps its successor: a ring carries it.
    Carried,
    /// In a later entry, but it is not known in which one.
    Outlives,
    /// In the next entry, but a place would cost too much memory: it is served beside the plan.
    Beside,
    /// In its own entry, with another size each time: a room serves it.
    InRoom,
}

/// An array that has ended within its entry this many times after outliving one alternates, and is carried for good.
const FLIPS: u8 = 3;

/// Positions begin at multiples of this many bytes, as blocks of a range and arrays of CUDA's own allocator do.
pub(super) const ALIGN: u64 = 256;
/// Positions that sum to this many bytes or more are not planned, so that offsets fit [`u32`] in units of [`ALIGN`].
const MOST_PLANNED: u128 = ALIGN as u128 * (1 << 31);
/// The fraction of the larger entry's bound, 1/32 or 3%, by which the envelope of two entries may exceed it. With less, sizes that vary
/// a little would make orders of their own. With more, a plan would reserve memory that is never in use at once.
const SAME_ORDER_SHARE: u64 = 32;
/// Changes of an order, after which arrays that outlived their entry are carried for good. The first entries of a program often keep
/// arrays that later entries do not. An array that still changes after that alternates, and without a limit each such entry would
/// be recorded and laid out again.
const CHANGES: u32 = 256;
/// The factor by which a size may be below the least or above the most that was seen, and still be taken for the same position
/// in another size. A batch or a sequence may be up to four times as long.
const VARIATION: u64 = 4;

impl Envelope {
    /// The envelope of two entries. The newer one knows when arrays of the entry before it were dropped. `None` if the
    /// orders are not the same, or if no layout could serve them.
    pub fn of(one: &Log, newer: &Log) -> Option<Envelope> {
        if one.stream() != newer.stream() || one.allocations().len() != newer.allocations().len() {
            return None;
        }
        let expected =
            |log: &Log, place: usize| Expected::of(&log.allocations()[place], place, newer.end_of_before(place));
        let (of_one, of_newer) = (|place| expected(one, place), |place| expected(newer, place));
        let places = 0..one.allocations().len();
        let most = bound(places.clone().map(of_one)).max(bound(places.clone().map(of_newer)));
        Envelope::within(places.map(|place| of_one(place).merge(&of_newer(place), false)), most)
    }

    /// Whether an entry has this order and only sizes that were seen before, and none of its arrays lives longer than known or needs
    /// a place that the envelope lacks.
    pub fn holds(&self, log: &Log) -> bool {
        let holds = |(place, (expected, logged)): (usize, (&Expected, &Logged))| {
            expected.has(logged.bytes) && self.may_end(expected, &Expected::of(logged, place, log.end_of_before(place)))
        };
        let pairs = self.positions.iter().zip(log.allocations());
        !self.is_partial() && log.allocations().len() == self.positions.len() && pairs.enumerate().all(holds)
    }

    /// Whether a life of this position may end as `seen` did.
    fn may_end(&self, expected: &Expected, seen: &Expected) -> bool {
        match (expected.kind, seen.kind) {
            // A life with an unknown end may be the expected one.
            (Kind::Wraps | Kind::Carried, Kind::Outlives) | (Kind::Carried, Kind::Carried) => true,
            (Kind::Wraps, Kind::Within) => true,
            (Kind::Within, Kind::Within) | (Kind::Wraps, Kind::Wraps) => seen.upper <= expected.upper,
            // Such an entry tells something new, as long as the order may still change: an array that outlived its entry ends within
            // it, or an array without a known end has one.
            (Kind::Carried | Kind::Outlives, Kind::Within | Kind::Wraps) | (Kind::Outlives, Kind::Carried) => {
                !self.may_change()
            }
            (Kind::Outlives, Kind::Outlives) => true,
            (Kind::Within | Kind::Wraps | Kind::Beside | Kind::InRoom, _) | (_, Kind::Beside | Kind::InRoom) => false,
        }
    }

    /// Whether entries may still change which arrays outlive their entry. Some arrays alternate.
    pub fn may_change(&self) -> bool {
        self.changes < CHANGES
    }

    /// Whether an entry of this order may begin with an allocation of this many bytes.
    pub fn begins_with(&self, bytes: u64) -> bool {
        self.at(0).is_some_and(|expected| expected.has(bytes)) && !self.is_partial()
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

    /// Makes a position carried whose array was still alive when its place was needed. Returns whether the position had a place.
    pub fn carry(&mut self, position: usize) -> bool {
        let is_room = self.has_room(position);
        let Some(expected) = self.positions.get_mut(position).filter(|expected| expected.is_planned()) else {
            return false;
        };
        // A room whose arrays outlive the entry is none.
        let kind = if is_room { Kind::Beside } else { Kind::Outlives };
        (expected.kind, expected.upper) = (kind, OUTLIVES);
        true
    }

    /// Whether the position is one where a room opens or closes.
    pub fn has_room(&self, position: usize) -> bool {
        self.rooms.iter().any(|room| room.has_gate(position))
    }

    /// Lets a position hold `bytes` too. The first one's fewest bytes stay those of recorded entries: they tell which plan serves. Returns whether it was smaller before.
    pub fn widen(&mut self, position: usize, bytes: u64) -> bool {
        // This keeps the sum of an envelope's sizes below 2^64, however often it is widened.
        if u128::from(bytes) >= MOST_PLANNED {
            return false;
        }
        let Some(expected) = self.positions.get_mut(position) else { return false };
        let was_smaller = expected.most < bytes;
        if position > 0 {
            expected.shrank |= bytes < expected.least;
            expected.least = expected.least.min(bytes);
        }
        expected.most = expected.most.max(bytes);
        self.is_overtaken |= was_smaller && expected.grows();
        was_smaller
    }

    /// The envelope of this order that covers an entry too; `None` if the entry has another order.
    pub fn absorb(&self, log: &Log) -> Option<Envelope> {
        if self.is_partial() || self.len() != log.allocations().len() {
            return None;
        }
        let seen = |place: usize| Expected::of(&log.allocations()[place], place, log.end_of_before(place));
        let places = 0..self.len();
        let most = self.bound().max(bound(places.clone().map(seen)));
        let both = places.map(|place| self.positions[place].merge(&seen(place), !self.may_change()));
        let is_told_by_first = self.tells_by_first(log).or(self.is_told_by_first);
        Envelope::within(both, most).map(|both| Envelope { is_told_by_first, ..both.follows(self) })
    }

    /// The envelope of both; `None` if their orders are not the same.
    pub fn merge(&self, other: &Envelope) -> Option<Envelope> {
        if self.is_partial() || other.is_partial() || self.len() != other.len() {
            return None;
        }
        let pairs = self.positions.iter().zip(&other.positions);
        let both = pairs.map(|(one, other)| one.merge(other, !self.may_change()));
        Envelope::within(both, self.bound().max(other.bound())).map(|both| both.follows(self))
    }

    /// The envelope of these positions, if it needs hardly more than `most` bytes and can be laid out.
    fn within(positions: impl ExactSizeIterator<Item = Expected> + Clone, most: u64) -> Option<Envelope> {
        let is_plannable = are_plannable(positions.clone().map(|expected| expected.most));
        if !is_plannable || bound(positions.clone()) > most.saturating_add(most / SAME_ORDER_SHARE) {
            return None;
        }
        let positions: Vec<Expected> = positions.collect();
        let first_recorded = positions.first().map_or(0, |first| first.most);
        Some(Envelope { positions, first_recorded, ..Envelope::default() })
    }

    /// Replaces `before`, which covers one entry less.
    fn follows(self, before: &Envelope) -> Envelope {
        let mut pairs = before.positions.iter().zip(&self.positions);
        let is_overtaken = before.is_overtaken || pairs.any(|(before, now)| before.grows() && now.most > before.most);
        Envelope { changes: before.changes + 1, entries_ahead: before.entries_ahead, is_overtaken, ..self }
    }

    /// Whether a layout could contain it; the envelope may have grown too large.
    pub fn is_plannable(&self) -> bool {
        are_plannable(self.positions.iter().map(|expected| expected.most))
    }

    /// The most bytes that are in use at once if each position has its largest size.
    pub fn bound(&self) -> u64 {
        bound(self.positions.iter().copied())
    }

    /// The number of positions that have a place or are carried, and the sum of their largest sizes, without the arenas of scopes inside.
    pub(super) fn places(&self) -> (u64, u64) {
        let numbered = self.positions.iter().enumerate().filter(|&(position, _)| !self.has_room(position));
        let serve =
            numbered.map(|(_, expected)| expected).filter(|expected| expected.is_planned() || expected.is_carried());
        serve
            .filter(|expected| expected.inner == 0)
            .fold((0, 0), |(number, bytes), expected| (number + 1, bytes.saturating_add(expected.most)))
    }

    /// The buffers to lay out: one for each position, of size 0 if the position has no place.
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

/// The most bytes that are in use at once in the circle of entries, without positions that have no place. No layout is lower.
fn bound(lives: impl ExactSizeIterator<Item = Expected> + Clone) -> u64 {
    let entry = lives.len();
    // The bytes whose lives end at each time.
    let (mut ends, mut load) = (vec![0; entry + 1], 0u128);
    let wrapped = lives.clone().filter_map(|life| Some((life.most, life.end(entry)?.checked_sub(entry as u32)?)));
    for (bytes, end) in wrapped.filter(|&(_, end)| end > 0) {
        load += u128::from(bytes);
        ends[end as usize] += u128::from(bytes);
    }
    let mut peak = load;
    for (position, life) in lives.enumerate() {
        load -= ends[position];
        if let Some(end) = life.end(entry) {
            load += u128::from(life.most);
            let here = ends.get_mut(end as usize);
            here.into_iter().for_each(|ends| *ends += u128::from(life.most));
            peak = peak.max(load);
        }
    }
    u64::try_from(peak).unwrap_or(u64::MAX)
}

/// Whether there is anything to serve, and a layout could contain it.
fn are_plannable(sizes: impl Iterator<Item = u64>) -> bool {
    let rounded = sizes.map(|bytes| u128::from(bytes).next_multiple_of(u128::from(ALIGN)));
    (1..MOST_PLANNED).contains(&rounded.sum::<u128>())
}

impl Log {
    /// Whether a layout could contain the entry.
    pub fn is_plannable(&self) -> bool {
        are_plannable(self.allocations().iter().map(|logged| logged.bytes))
    }
}

impl Expected {
    /// The expectation after one entry. `end` is the time at which this entry dropped the array that the entry before had here.
    fn of(logged: &Logged, place: usize, end: Option<u32>) -> Expected {
        let (kind, upper) = match (logged.upper, end) {
            (OUTLIVES, Some(end)) if end as usize <= place => (Kind::Wraps, end),
            (OUTLIVES, Some(end)) => (Kind::Carried, end),
            (OUTLIVES, None) => (Kind::Outlives, OUTLIVES),
            (upper, _) => (Kind::Within, upper),
        };
        let (bytes, inner) = (logged.bytes, logged.inner);
        Expected { least: bytes, most: bytes, step: 0, shrank: false, kind, flips: 0, upper, inner }
    }

    /// The time of its end, counted from the start of its own entry, which has `entry` allocations. `None` if it has no place.
    fn end(&self, entry: usize) -> Option<u32> {
        match self.kind {
            Kind::Within => Some(self.upper),
            Kind::Wraps => Some(entry as u32 + self.upper),
            Kind::Carried | Kind::Outlives | Kind::Beside | Kind::InRoom => None,
        }
    }

    /// Whether its bytes differ between entries.
    pub(super) fn varies(&self) -> bool {
        self.least < self.most
    }

    /// Whether it is known to grow from entry to entry.
    fn grows(&self) -> bool {
        self.step > 0
    }

    /// Whether this many bytes may be this position's in another entry.
    pub(super) fn is_like(&self, bytes: u64) -> bool {
        // Where sizes have varied by a larger factor already, such as with the square of a sequence's length, they may shrink so again.
        // They may not grow so: a place for such a size would take memory that is hardly ever in use.
        let seen = self.most.checked_div(self.least).unwrap_or(1);
        let factor = VARIATION.max(seen.saturating_mul(seen));
        bytes >= self.least / factor && bytes / VARIATION <= self.most
    }

    /// Whether this size lies within those that are expected here.
    pub(super) fn has(&self, bytes: u64) -> bool {
        (self.least..=self.most).contains(&bytes)
    }

    /// The expectation that covers both. `newer` was seen later. Once the order `is_settled`, a carried position stays carried.
    fn merge(&self, newer: &Expected, is_settled: bool) -> Expected {
        let mut flips = self.flips.max(newer.flips);
        let longer = |kind| (kind, self.upper.max(newer.upper));
        let (kind, upper) = match (self.kind, newer.kind) {
            (Kind::Within, Kind::Within) | (Kind::Wraps, Kind::Wraps) | (Kind::Carried, Kind::Carried) => {
                longer(self.kind)
            }
            // A short life of an array that otherwise wraps ends within its own entry too.
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
        let shrank = self.shrank || newer.shrank || newer.least < self.least;
        let (step, inner) = (self.step.max(newer.step), newer.inner);
        Expected { least, most, step, shrank, kind, flips, upper, inner }
    }

    /// Whether the ring serves it.
    pub(super) fn is_carried(&self) -> bool {
        matches!(self.kind, Kind::Carried | Kind::Outlives)
    }

    /// Whether it comes in order, and a room serves it.
    pub(super) fn is_in_room(&self) -> bool {
        self.kind == Kind::InRoom
    }

    /// Whether the plan has a place for it. An array that is alive when its successor is born is served outside the plan.
    pub(super) fn is_planned(&self) -> bool {
        self.kind == Kind::Within
    }
}
