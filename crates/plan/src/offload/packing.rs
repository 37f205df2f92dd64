//! Which gaps to stay in, as a packing: each has its bytes, its stretch of a circle and its worth, and at each point of the
//! circle there is so much room.
//!
//! Only points matter behind which something is let go: at any other one no more is held than at the next.
//!
//! Bytes alone do not tell the worth of a gap: a copy takes calls besides its bytes, and work hides the copies of long gaps. An array that
//! goes shortly before it is used again comes back late: the device waits for its write-back, and then for its copy. At the point where most
//! is alive any bytes may go, and those that are not needed for long cost nothing.

use std::ops::Range;

use super::gaps::{Gaps, stretches};
use super::types::{Link, Order};

/// A gap of which it is to be decided whether the array stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) bytes: u64,
    /// Bytes that need not come in if it stays.
    pub(super) worth: u64,
    from: u32,
    to: u32,
}

/// Choices that are worth something together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) items: Vec<u32>,
    /// Bytes that need not go out if all of them stay.
    pub(super) worth: u64,
}

/// The gaps of an entry and the room for them.
#[derive(Debug)]
pub(super) struct Packing {
    /// By point: bytes beside what is held anyway.
    pub(super) room: Vec<u64>,
    /// By gap; without bytes if it stays or does not stay in any case.
    pub(super) items: Vec<Choice>,
    /// All items of which something is to be decided are in one.
    pub(super) groups: Vec<Group>,
    /// The group of each item.
    pub(super) group_of: Vec<u32>,
    /// Gaps that cost no room.
    pub(super) free: Vec<bool>,
}

/// Of an item that is in no group.
pub(super) const NO_GROUP: u32 = u32::MAX;

impl Packing {
    /// The packing of these gaps into a budget; `None` if what is held at once does not fit it.
    pub(super) fn new(order: &Order, gaps: &Gaps, budget: u64) -> Option<Packing> {
        let point_of = points(order, gaps);
        let mut room = vec![u64::MAX; point_of.last().map_or(0, |&last| last as usize)];
        for (place, &held) in gaps.held.iter().enumerate() {
            let left = budget.checked_sub(held)?;
            if let Some(room) = room.get_mut(point_of[place] as usize) {
                *room = left.min(*room);
            }
        }
        let count = room.len() as u32;
        let items = gaps.all.iter().map(|gap| {
            let bytes = order.bytes[gap.array as usize];
            let point = |place: u32| point_of[place as usize] % count.max(1);
            let worth = if gap.comes_in && !gap.is_dead { bytes } else { 0 };
            Choice { bytes, worth, from: point(gap.from), to: point(gap.to) }
        });
        let items: Vec<Choice> = items.collect();
        let free =
            items.iter().zip(&gaps.all).map(|(item, gap)| !gap.is_dead && (item.from == item.to || item.bytes == 0));
        let free = free.collect();
        let mut packing = Packing { room, items, groups: Vec::new(), group_of: vec![NO_GROUP; gaps.all.len()], free };
        packing.group(order, gaps);
        Some(packing)
    }

    /// Makes the groups: one of each run, and one of each gap that is in none.
    fn group(&mut self, order: &Order, gaps: &Gaps) {
        let open =
            |packing: &Packing, number: u32| !packing.free[number as usize] && !gaps.all[number as usize].is_dead;
        for run in &gaps.runs {
            let items: Vec<u32> = run.gaps.iter().copied().filter(|&gap| open(self, gap)).collect();
            let array = run.gaps.first().map(|&gap| gaps.all[gap as usize].array);
            self.add_group(items, array.map_or(0, |array| order.bytes[array as usize]));
        }
        for (number, run) in (0..).zip(&gaps.run_of) {
            if run.is_none() && open(self, number) {
                self.add_group(vec![number], 0);
            }
        }
    }

    /// Has gaps be worth more the shorter they are beside the time of their copies.
    pub(super) fn weigh(&mut self, order: &Order, gaps: &Gaps, link: Link) {
        let factors: Vec<f64> = (0..gaps.all.len()).map(|gap| factor(order, gaps, link, gap)).collect();
        let price = |array: u32| order.bytes[array as usize] as f64 + link.latency * link.bytes_per_second;
        for (number, gap) in gaps.all.iter().enumerate() {
            let item = &mut self.items[number];
            if item.worth > 0 {
                item.worth = (price(gap.array) * factors[number]) as u64;
            }
        }
        for group in self.groups.iter_mut().filter(|group| group.worth > 0) {
            // The write-back is needed if any of them goes: the longest, most likely.
            let least = group.items.iter().map(|&item| factors[item as usize]).fold(f64::INFINITY, f64::min);
            if let Some(&first) = group.items.first() {
                group.worth = (price(gaps.all[first as usize].array) * least) as u64;
            }
        }
    }

    fn add_group(&mut self, items: Vec<u32>, worth: u64) {
        if !items.is_empty() {
            items.iter().for_each(|&item| self.group_of[item as usize] = self.groups.len() as u32);
            self.groups.push(Group { items, worth });
        }
    }

    /// The points that an item covers.
    pub(super) fn points(&self, item: &Choice) -> [Range<usize>; 2] {
        stretches(item.from as usize, item.to as usize, self.room.len())
    }

    /// Whether an item covers a point.
    pub(super) fn covers(&self, item: &Choice, point: usize) -> bool {
        self.points(item).iter().any(|points| points.contains(&point))
    }

    /// Bytes that move if nothing stays that is to be decided on, of what could.
    pub(super) fn at_stake(&self) -> u64 {
        let groups = self
            .groups
            .iter()
            .map(|group| group.worth + group.items.iter().map(|&item| self.items[item as usize].worth).sum::<u64>());
        groups.sum()
    }

    /// What a group saves if these gaps are stayed in.
    pub(super) fn saved(&self, group: &Group, kept: &[bool]) -> u64 {
        let stays = |item: &&u32| kept[**item as usize];
        let each: u64 = group.items.iter().filter(stays).map(|&item| self.items[item as usize].worth).sum();
        if group.items.iter().all(|item| stays(&item)) { each + group.worth } else { each }
    }
}

/// The shortest gap that counts as such, as a part of the time of its copies.
const SHORTEST: f64 = 0.01;

/// The point that stands for each place, and at last their number.
fn points(order: &Order, gaps: &Gaps) -> Vec<u32> {
    let mut lets_go = vec![false; gaps.held.len()];
    for place in 0..order.end() {
        lets_go[order.let_go(place) as usize - 1] = true;
    }
    let mut next = 0;
    let mut points: Vec<u32> = Vec::with_capacity(lets_go.len() + 1);
    for goes in lets_go {
        points.push(next);
        next += u32::from(goes);
    }
    points.push(next);
    points
}

/// How many times its bytes a gap is worth.
fn factor(order: &Order, gaps: &Gaps, link: Link, number: usize) -> f64 {
    let gap = &gaps.all[number];
    let at = |place: u32| order.at.get(place as usize).copied().unwrap_or(order.length);
    let between = at(gap.to) - at(gap.from);
    let time = if gap.from > gap.to { between + order.length } else { between };
    let copies = 1.0 + f64::from(u8::from(gaps.run_of[number].is_some()));
    let takes = copies * link.seconds(order.bytes[gap.array as usize]);
    1.0 + takes / time.max(takes * SHORTEST).max(f64::MIN_POSITIVE)
}
