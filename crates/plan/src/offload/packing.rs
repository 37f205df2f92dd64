//! The choice of gaps as a packing problem: each gap has bytes, a stretch of a circle and a worth, and each point of the
//! circle has a certain number of free bytes.
//!
//! Only places behind which a use lets an array go become points: at any other place no more is held than at the next one.
//!
//! Bytes alone do not tell the worth of a gap. A copy has a fixed cost besides its bytes, and work hides the copies of long gaps. If an
//! array leaves shortly before its next use, it comes back late: the device waits for its write-back, and then for its copy. At the
//! point where the most memory is alive, it does not matter for the bytes which arrays leave. It is best if arrays leave that are not
//! used for a long time.

use std::ops::Range;

use super::gaps::{Gaps, stretches};
use super::types::{Link, Order};

/// A gap for which the packing decides whether the array stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) bytes: u64,
    /// Bytes that need not come in if the array stays.
    pub(super) worth: u64,
    from: u32,
    to: u32,
}

/// Choices that save something only together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) items: Vec<u32>,
    /// Bytes that need not go out if the array stays during all of them.
    pub(super) worth: u64,
}

/// The gaps of an entry and the room for them.
pub(super) struct Packing {
    /// For each point: free bytes beside the arrays that uses hold.
    pub(super) room: Vec<u64>,
    /// One choice per gap. Choices that are already decided are in no group.
    pub(super) items: Vec<Choice>,
    /// Each item that is to be decided is in one group.
    pub(super) groups: Vec<Group>,
    /// Gaps in which the array stays at no cost.
    pub(super) free: Vec<bool>,
}

impl Packing {
    /// The packing of these gaps into a budget; `None` if the arrays that are held at once do not fit.
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
            let worth = if gap.comes_in && gap.may_stay() { bytes } else { 0 };
            Choice { bytes, worth, from: point(gap.from), to: point(gap.to) }
        });
        let items: Vec<Choice> = items.collect();
        let free =
            items.iter().zip(&gaps.all).map(|(item, gap)| gap.may_stay() && (item.from == item.to || item.bytes == 0));
        let free = free.collect();
        let mut packing = Packing { room, items, groups: Vec::new(), free };
        packing.group(order, gaps);
        Some(packing)
    }

    /// Makes the groups: one for each run, and one for each gap that belongs to no run.
    fn group(&mut self, order: &Order, gaps: &Gaps) {
        let open =
            |packing: &Packing, number: u32| !packing.free[number as usize] && gaps.all[number as usize].may_stay();
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

    /// Gives gaps a higher worth if they are short compared to the time of their copies.
    pub(super) fn weigh(&mut self, order: &Order, gaps: &Gaps, link: Link) {
        let factors: Vec<f64> = (0..gaps.all.len()).map(|gap| factor(order, gaps, link, gap)).collect();
        // All worths have a sum. Bytes have one, but a short gap counts for many times its bytes.
        let most = u64::MAX / (self.items.len() + self.groups.len()).max(1) as u64;
        let price = |array: u32| order.bytes[array as usize] as f64 + link.latency * link.bytes_per_second;
        for (number, gap) in gaps.all.iter().enumerate() {
            let item = &mut self.items[number];
            if item.worth > 0 {
                item.worth = most.min((price(gap.array) * factors[number]) as u64);
            }
        }
        for group in self.groups.iter_mut().filter(|group| group.worth > 0) {
            // The write-back is needed if the array leaves during any gap of the run, most likely during the longest one.
            let least = group.items.iter().map(|&item| factors[item as usize]).fold(f64::INFINITY, f64::min);
            if let Some(&first) = group.items.first() {
                group.worth = most.min((price(gaps.all[first as usize].array) * least) as u64);
            }
        }
    }

    fn add_group(&mut self, items: Vec<u32>, worth: u64) {
        if !items.is_empty() {
            self.groups.push(Group { items, worth });
        }
    }

    /// The points that an item covers.
    pub(super) fn points(&self, item: &Choice) -> [Range<usize>; 2] {
        stretches(item.from as usize, item.to as usize, self.room.len())
    }

    /// The bytes that move if no undecided gap is stayed in.
    pub(super) fn at_stake(&self) -> u64 {
        let groups = self
            .groups
            .iter()
            .map(|group| group.worth + group.items.iter().map(|&item| self.items[item as usize].worth).sum::<u64>());
        groups.sum()
    }

    /// The bytes that need not move if the arrays stay during these gaps.
    pub(super) fn saved_by(&self, kept: &[bool]) -> u64 {
        self.groups.iter().map(|group| self.saved(group, kept)).sum()
    }

    /// The bytes that a group saves if the arrays stay during these gaps.
    fn saved(&self, group: &Group, kept: &[bool]) -> u64 {
        let stays = |item: &&u32| kept[**item as usize];
        let each: u64 = group.items.iter().filter(stays).map(|&item| self.items[item as usize].worth).sum();
        if group.items.iter().all(|item| stays(&item)) { each + group.worth } else { each }
    }
}

/// The shortest length of a gap, as a fraction of the time of its copies; shorter gaps count as this long.
const SHORTEST: f64 = 0.01;

/// The point that stands for each place, followed by the number of points.
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

/// By how much a gap's worth exceeds its bytes, as a factor.
fn factor(order: &Order, gaps: &Gaps, link: Link, number: usize) -> f64 {
    let gap = &gaps.all[number];
    let at = |place: u32| order.at.get(place as usize).copied().unwrap_or(order.length);
    let between = at(gap.to) - at(gap.from);
    let time = if gap.from > gap.to { between + order.length } else { between };
    let copies = 1.0 + f64::from(u8::from(gaps.run_of[number].is_some()));
    let takes = copies * link.seconds(order.bytes[gap.array as usize]);
    1.0 + takes / time.max(takes * SHORTEST).max(f64::MIN_POSITIVE)
}
