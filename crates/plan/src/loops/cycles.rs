//! Finds cycles in an entry. In a cycle, the live bytes rise from low water and fall back to it. Programs whose iterations have several orders,
//! which come in no order, repeat no window for long. But their iterations are cycles.
//!
//! While it is searched, the least and the most live bytes of each block of allocations are noted, so an allocation costs two comparisons. A
//! look at all blocks comes after ever more allocations. If cycles of about the same length ended lately, the next allocation at low water
//! begins another one. A period that repeats ([`candidate`](super::candidate)) is a sign as well, if the last cycle was as long.

use super::low_water::{LowWater, levels};
use crate::entries::Log;

/// The allocations in a block. A shorter cycle has no block of its own, and would cost as much as an entry.
const BLOCK: u32 = 64;
/// Cycles are alike if the longer one of two is at most this many times as long as the other. The number was chosen, not measured.
const ALIKE: u32 = 4;
/// The first look comes after so many allocations, the least that a loop has. A step that is an entry mostly has more, and a plan as a whole.
const LEAST: u32 = 512;
/// A look comes after this share, 1/4, more allocations than the look before.
const MORE: u32 = 4;

/// Looks at periods take at most so many steps for each allocation of the log. A short period that repeats for long would be looked at again and
/// again. The number was chosen, not measured.
const STEPS: u32 = 16;

/// The search for cycles.
#[derive(Debug, Default)]
pub(super) struct Cycles {
    /// The first allocation of the blocks, and the least and the most bytes that were alive before an allocation of each block.
    from: u32,
    blocks: Vec<[u64; 2]>,
    /// The same of the block that is under way.
    block: [u64; 2],
    next_look: u32,
    /// Steps that looks at periods took: at most [`STEPS`] for each allocation so far.
    spent: u32,
    /// The allocation before which there is no search.
    pub(super) until: u32,
    /// Shorter cycles and periods are not found before an allocation: the length, and the allocation.
    pub(super) least: (u32, u32),
    found: Option<(LowWater, Ends)>,
}

/// A cycle that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Cycle {
    /// The number of allocations in it. They are the last ones of the log.
    pub length: u32,
    /// Whether the cycle before had as many.
    pub is_again: bool,
    /// The level at which cycles end.
    pub water: LowWater,
}

/// The least and the most of no bytes at all.
const NONE: [u64; 2] = [u64::MAX, 0];

impl Cycles {
    /// Begins a search at an allocation.
    pub(super) fn begin(&mut self, from: u32) {
        (self.until, self.least) = (0, (0, 0));
        self.begin_again(from);
    }

    /// Begins anew at an allocation.
    pub(super) fn begin_again(&mut self, from: u32) {
        self.blocks.clear();
        (self.from, self.block, self.found, self.spent) = (from, NONE, None, 0);
        self.next_look = from.saturating_add(LEAST);
    }

    /// Whether the end of the next cycle is awaited.
    pub(super) fn are_found(&self) -> bool {
        self.found.is_some()
    }

    /// Notes the allocation of this number and of so many bytes, which was logged last.
    #[inline]
    pub(super) fn allocated(&mut self, log: &Log, number: u32, bytes: u64) {
        let before = log.alive().saturating_sub(bytes);
        let [least, most] = self.block;
        self.block = [least.min(before), most.max(before)];
        if number % BLOCK == BLOCK - 1 {
            self.end_block(log);
        }
    }

    #[cold]
    fn end_block(&mut self, log: &Log) {
        self.blocks.push(std::mem::replace(&mut self.block, NONE));
        if log.len() >= self.next_look && log.len() >= self.until {
            self.next_look = log.len() + (log.len() - self.from) / MORE;
            self.look(log);
        }
    }

    /// Looks whether cycles ended in the later half.
    fn look(&mut self, log: &Log) {
        let later = &self.blocks[self.blocks.len() / 2..];
        let low = later.iter().map(|&[least, _]| least).min().unwrap_or(0);
        let high = later.iter().map(|&[_, most]| most).max().unwrap_or(0);
        let mut water = LowWater::new(low, high.saturating_sub(low));
        let ends = Ends::of(&mut water, (0..).step_by(BLOCK as usize).zip(later.iter().copied()));
        if ends.are_alike(later.len() as u32 * BLOCK) {
            let (water, ends) = ends_of(log, (log.len() - self.from) / 2);
            self.found = Some((water, ends)).filter(|_| ends.are_alike(log.len()) && self.are_wanted(ends, log));
        }
    }

    /// Looks at a log whose last allocations repeat at a period. Returns whether its iterations are cycles.
    pub(super) fn look_at_period(&mut self, log: &Log, period: u32) -> bool {
        if period < BLOCK / 2 || log.len() < self.until {
            return false;
        }
        let spent = self.spent.saturating_add(log.len());
        if spent > log.len().saturating_mul(STEPS) {
            return false;
        }
        self.spent = spent;
        let (water, ends) = ends_of(log, (log.len() / 2).max(period.saturating_mul(3)));
        let are_cycles = self.are_wanted(ends, log) && ends.suit(period, log.len());
        if are_cycles {
            self.found = Some((water, ends));
        }
        are_cycles
    }

    /// Whether cycles of these lengths are searched now.
    fn are_wanted(&self, ends: Ends, log: &Log) -> bool {
        let (least, until) = self.least;
        log.len() >= until || ends.lengths().into_iter().flatten().all(|length| length >= least)
    }

    /// The cycle that ends before the next allocation, if one does.
    pub(super) fn ended(&mut self, log: &Log) -> Option<Cycle> {
        let (water, ends) = self.found.as_mut()?;
        if !water.is_back(log.alive()) {
            return None;
        }
        ends.push(log.len());
        let [length, before] = ends.lengths();
        let length = length.filter(|&length| length > 0)?;
        Some(Cycle { length, is_again: before == Some(length), water: *water })
    }
}

/// The allocations before which the last three cycles ended, the latest first.
#[derive(Clone, Copy, Debug, Default)]
struct Ends([Option<u32>; 3]);

impl Ends {
    /// The ends at these places, each with the least and the most live bytes there.
    fn of(water: &mut LowWater, places: impl Iterator<Item = (u32, [u64; 2])>) -> Ends {
        let mut ends = Ends::default();
        for (place, [least, most]) in places {
            if water.is_back(least) {
                ends.push(place);
            }
            water.rise_to(most);
        }
        ends
    }

    fn push(&mut self, end: u32) {
        let Ends([last, before, _]) = *self;
        self.0 = [Some(end), last, before];
    }

    /// The lengths of the last two cycles, the latest first.
    fn lengths(&self) -> [Option<u32>; 2] {
        let Ends([last, before, first]) = *self;
        let length = |end: Option<u32>, begin: Option<u32>| Some(end? - begin?);
        [length(last, before), length(before, first)]
    }

    /// Whether the last cycle was as long as a period that repeats, or the last two are alike.
    fn suit(&self, period: u32, now: u32) -> bool {
        self.lengths()[0] == Some(period) || self.are_alike(now)
    }

    /// Whether the last two cycles are alike, and ended not long before `now`.
    fn are_alike(&self, now: u32) -> bool {
        let (Some(last), [Some(one), Some(other)]) = (self.0[0], self.lengths()) else { return false };
        let (short, long) = (one.min(other), one.max(other));
        long <= short.saturating_mul(ALIKE) && now - last <= long.saturating_mul(2)
    }
}

/// Low water, as live bytes of the log, and the ends of cycles among the last `span` allocations.
fn ends_of(log: &Log, span: u32) -> (LowWater, Ends) {
    let start = log.len() - span.min(log.len());
    let levels = levels(log, start);
    let least = levels.iter().min().copied().unwrap_or(0);
    let levels: Vec<u64> = levels.into_iter().map(|level| u64::try_from(level - least).unwrap_or(u64::MAX)).collect();
    let (range, now) = (levels.iter().max().copied().unwrap_or(0), levels.last().copied().unwrap_or(0));
    let mut water = LowWater::new(0, range);
    let ends = Ends::of(&mut water, (start..).zip(levels.iter().map(|&level| [level; 2])));
    (water.counted_from(log.alive().saturating_sub(now)), ends)
}
