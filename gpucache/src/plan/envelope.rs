//! What entries of the same order have in common: for each position the bytes and the lifetime that hold all of them.
//!
//! Orders are the same if they have as many allocations and their envelope needs hardly more memory than the larger one
//! of them: sizes may vary, and drops may change places. To find that two entries have nothing in common allocates nothing
//! ([`Scratch`]), since a program that never repeats itself is compared again and again.

use super::Buffer;
use super::log::{Log, Logged, OUTLIVES};

/// Sizes and lifetimes for each allocation of an entry, in order.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    positions: Vec<Expected>,
    /// How often entries made it another one.
    changes: u32,
}

/// Room for comparisons, kept from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    positions: Vec<Expected>,
    /// By time the bytes whose lives end then.
    ends: Vec<u128>,
}

/// What is expected at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// The fewest bytes that were seen here.
    pub(super) least: u64,
    /// The most.
    pub(super) most: u64,
    upper: u32,
}

/// Positions begin at multiples of this many bytes, as blocks of a range do, and arrays of CUDA's own allocator.
pub(super) const ALIGN: u64 = 256;
/// So many bytes of positions and more are not planned, so that offsets fit [`u32`] in units of [`ALIGN`].
const MOST_PLANNED: u128 = ALIGN as u128 * (1 << 31);
/// The share of the larger entry's bound that an envelope of two may need more. With less, sizes that vary a little make orders
/// of their own; with more, a plan reserves for what never is in use at once: 1/32 is 3%.
const SAME_ORDER_SHARE: u64 = 32;
/// Changes of an order before what outlives its entry is taken for granted. Some arrays outlive their entry by turns, and
/// without an end to it each of those entries would be recorded and laid out again.
const CHANGES: u32 = 64;
/// The factor by which sizes may be below the least or above the most that was seen, and still be taken for the same position
/// in another size: as when a batch or a sequence is up to four times as long.
const VARIATION: u64 = 4;

impl Envelope {
    /// The envelope of two entries; `None` if their orders are not the same, or nothing of them can be laid out.
    pub(crate) fn of(one: &Log, other: &Log, scratch: &mut Scratch) -> Option<Envelope> {
        if one.stream() != other.stream() || one.allocations().len() != other.allocations().len() {
            return None;
        }
        let pairs = one.allocations().iter().zip(other.allocations());
        let bound = scratch.bound(one.allocations()).max(scratch.bound(other.allocations()));
        scratch.envelope(pairs.map(|(one, other)| Expected::of(one, other)), bound, 0)
    }

    /// Whether an entry has this order, with sizes that were seen before, and no array of it lives longer or needs a place
    /// that it has not.
    pub(crate) fn holds(&self, log: &Log) -> bool {
        let holds = |(expected, logged): (&Expected, &Logged)| {
            expected.has(logged.bytes) && self.may_end(expected, logged.upper)
        };
        log.allocations().len() == self.positions.len() && self.positions.iter().zip(log.allocations()).all(holds)
    }

    /// Whether a life of this position may end there.
    fn may_end(&self, expected: &Expected, upper: u32) -> bool {
        match expected.is_planned() {
            true => upper <= expected.upper,
            // An end within the entry is news, as long as news of what outlives its entry are heard.
            false => upper == OUTLIVES || !self.may_change(),
        }
    }

    /// Whether entries may still tell what outlives its entry, and what does not: some do by turns.
    pub(crate) fn may_change(&self) -> bool {
        self.changes < CHANGES
    }

    /// Whether an entry of this order begins with an allocation like this.
    pub(crate) fn begins_with(&self, bytes: u64) -> bool {
        self.at(0).is_some_and(|expected| expected.has(bytes))
    }

    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }

    /// The position, if there is one.
    pub(super) fn at(&self, position: usize) -> Option<&Expected> {
        self.positions.get(position)
    }

    /// Lets a position hold `bytes` too. Returns whether it was smaller before.
    pub(crate) fn widen(&mut self, position: usize, bytes: u64) -> bool {
        let Some(expected) = self.positions.get_mut(position) else { return false };
        let was_smaller = expected.most < bytes;
        expected.least = expected.least.min(bytes);
        expected.most = expected.most.max(bytes);
        was_smaller
    }

    /// The envelope of this order that holds an entry too; `None` if that has another order.
    pub(crate) fn absorb(&self, log: &Log, scratch: &mut Scratch) -> Option<Envelope> {
        if self.len() != log.allocations().len() {
            return None;
        }
        let bound = scratch.bound(&self.positions).max(scratch.bound(log.allocations()));
        let pairs = self.positions.iter().zip(log.allocations());
        scratch.envelope(pairs.map(|(one, logged)| one.merge(&Expected::of(logged, logged))), bound, self.changes + 1)
    }

    /// The envelope of both; `None` if their orders are not the same.
    pub(crate) fn merge(&self, other: &Envelope) -> Option<Envelope> {
        if self.len() != other.len() {
            return None;
        }
        let (mut scratch, pairs) = (Scratch::default(), self.positions.iter().zip(&other.positions));
        let bound = self.bound().max(other.bound());
        scratch.envelope(pairs.map(|(one, other)| one.merge(other)), bound, self.changes + 1)
    }

    /// The most bytes that are in use at once if each position takes all that it may.
    pub(crate) fn bound(&self) -> u64 {
        Scratch::default().bound(&self.positions)
    }

    /// What a layout is made of: a buffer for each position, of no size where nothing is planned.
    pub(crate) fn buffers(&self) -> Vec<Buffer> {
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

/// A life that begins at its position: its bytes, and at which position it has ended.
trait Lives {
    fn life(&self) -> (u64, u32);
}

impl Lives for Logged {
    fn life(&self) -> (u64, u32) {
        (self.bytes, self.upper)
    }
}

impl Lives for Expected {
    fn life(&self) -> (u64, u32) {
        (self.most, self.upper)
    }
}

impl Scratch {
    /// The envelope of these positions, if it needs hardly more than `bound` bytes, and can be laid out.
    fn envelope(&mut self, positions: impl Iterator<Item = Expected>, bound: u64, changes: u32) -> Option<Envelope> {
        let mut all = std::mem::take(&mut self.positions);
        all.clear();
        all.extend(positions);
        let is_same = self.bound(&all) <= bound + bound / SAME_ORDER_SHARE && is_plannable(&all);
        let envelope = is_same.then(|| Envelope { positions: all.clone(), changes });
        self.positions = all;
        envelope
    }

    /// The most bytes that are in use at once, but for what outlives its entry: no layout of them is lower.
    fn bound<L: Lives>(&mut self, lives: &[L]) -> u64 {
        self.ends.clear();
        self.ends.resize(lives.len() + 1, 0);
        let (mut load, mut peak) = (0u128, 0u128);
        for (position, (bytes, upper)) in lives.iter().map(Lives::life).enumerate() {
            load -= self.ends[position];
            if let Some(end) = self.ends.get_mut(upper as usize) {
                load += u128::from(bytes);
                *end += u128::from(bytes);
                peak = peak.max(load);
            }
        }
        u64::try_from(peak).unwrap_or(u64::MAX)
    }
}

/// Whether there is anything to lay out, and a layout could hold it.
fn is_plannable(positions: &[Expected]) -> bool {
    let planned = positions.iter().filter(|expected| expected.is_planned());
    let rounded = planned.map(|expected| u128::from(expected.most).next_multiple_of(u128::from(ALIGN)));
    (1..MOST_PLANNED).contains(&rounded.sum::<u128>())
}

impl Expected {
    fn of(one: &Logged, other: &Logged) -> Expected {
        Expected {
            least: one.bytes.min(other.bytes),
            most: one.bytes.max(other.bytes),
            upper: later(one.upper, other.upper),
        }
    }

    /// Whether entries differ in the bytes.
    pub(super) fn varies(&self) -> bool {
        self.least < self.most
    }

    /// Whether so many bytes may be this position's in another entry.
    pub(super) fn is_like(&self, bytes: u64) -> bool {
        bytes >= self.least / VARIATION && bytes / VARIATION <= self.most
    }

    /// Whether this many bytes were seen here, or as many and fewer.
    pub(super) fn has(&self, bytes: u64) -> bool {
        (self.least..=self.most).contains(&bytes)
    }

    fn merge(&self, other: &Expected) -> Expected {
        Expected {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            upper: later(self.upper, other.upper),
        }
    }

    /// Whether the plan has a place for it; what outlives its entry is served beside the plan.
    pub(super) fn is_planned(&self) -> bool {
        self.upper != OUTLIVES
    }
}

/// The later end, but whether something outlives its entry, the newer one says.
fn later(old: u32, new: u32) -> u32 {
    if old == OUTLIVES || new == OUTLIVES { new } else { old.max(new) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allocates `sizes` in order; each lives until `ends` allocations were made.
    fn log(sizes: &[u64], ends: &[u32]) -> Log {
        let mut log = Log::default();
        for (number, &bytes) in (0..).zip(sizes) {
            (0..).zip(ends).filter(|&(_, &end)| end == number).for_each(|(dropped, _)| log.dropped(dropped));
            assert_eq!(log.allocated(0, bytes), Some(number));
        }
        let last = sizes.len() as u32;
        (0..).zip(ends).filter(|&(_, &end)| end == last).for_each(|(dropped, _)| log.dropped(dropped));
        log
    }

    fn of(one: &Log, other: &Log) -> Option<Envelope> {
        Envelope::of(one, other, &mut Scratch::default())
    }

    #[test]
    fn positions_hold_the_largest_and_the_longest() {
        let (one, other) = (log(&[1000, 20], &[1, 2]), log(&[400, 21], &[2, 2]));
        let envelope = of(&one, &other).unwrap();
        assert_eq!(envelope.at(0), Some(&Expected { least: 400, most: 1000, upper: 2 }));
        assert_eq!(
            envelope.buffers(),
            [Buffer { lower: 0, upper: 2, size: 1024 }, Buffer { lower: 1, upper: 2, size: 256 }]
        );
        assert!(envelope.holds(&one) && envelope.holds(&other));
        assert!(!envelope.holds(&log(&[1000, 22], &[1, 2])) && !envelope.holds(&log(&[1000], &[1])));
    }

    #[test]
    fn what_outlives_its_entry_is_kept_out() {
        let kept = log(&[512, 256], &[OUTLIVES, 2]);
        let envelope = of(&kept, &kept).unwrap();
        assert_eq!(envelope.buffers()[0].size, 0);
        assert!(!envelope.at(0).unwrap().is_planned() && envelope.at(1).unwrap().is_planned());
        assert!(envelope.holds(&kept) && !envelope.holds(&log(&[512, 256], &[1, 2])));
        let newer = envelope.absorb(&log(&[512, 256], &[1, 2]), &mut Scratch::default()).unwrap();
        assert!(newer.at(0).unwrap().is_planned(), "it outlives its entry no more");
    }

    #[test]
    fn other_orders_are_told_from_other_sizes() {
        let large_first = log(&[1 << 20, 256, 256, 256], &[1, 2, 3, 4]);
        let large_last = log(&[256, 256, 256, 1 << 20], &[1, 2, 3, 4]);
        assert!(of(&large_first, &large_last).is_some(), "nothing lives at once");
        let large_first = log(&[1 << 20, 256, 256, 256], &[4, 4, 4, 4]);
        let large_last = log(&[256, 256, 256, 1 << 20], &[4, 4, 4, 4]);
        assert!(of(&large_first, &large_last).is_none(), "twice the memory");
        assert!(of(&large_first, &log(&[256], &[1])).is_none(), "another number");
    }

    proptest::proptest! {
        #[test]
        fn the_bound_is_that_of_any_layout(lives in proptest::collection::vec((1..100u64, 1..9u32, 0..4u32), 1..40)) {
            let last = lives.len() as u32;
            let upper = |(place, (_, length, kind)): (u32, (u64, u32, u32))| {
                if kind == 0 { OUTLIVES } else { last.min(place + length) }
            };
            let logged: Vec<Logged> = (0..).zip(lives)
                .map(|(place, life)| Logged { bytes: life.0, upper: upper((place, life)) })
                .collect();
            let buffers: Vec<Buffer> = (0..).zip(&logged)
                .filter(|(_, logged)| logged.upper != OUTLIVES)
                .map(|(lower, logged)| Buffer { lower, upper: logged.upper, size: logged.bytes })
                .collect();
            proptest::prop_assert_eq!(Scratch::default().bound(&logged), crate::plan::lower_bound(&buffers));
        }
    }

    #[test]
    fn a_position_can_be_widened() {
        let one = log(&[512], &[1]);
        let mut envelope = of(&one, &one).unwrap();
        assert!(!envelope.widen(0, 512) && envelope.widen(0, 513) && !envelope.widen(1, 1));
        assert_eq!(envelope.buffers()[0].size, 768);
    }
}
