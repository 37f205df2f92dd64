//! The state of a branch of the search: floors of items and sections, and a trail that takes changes back.
//!
//! The floor of an item is the lowest address at which it can still start: the highest top placed in its sections, or more if the
//! item was forbidden. The floor of a section is the lowest floor of an unplaced item there. The branch fails if the
//! target leaves fewer bytes above that floor than the section's unplaced items have.
//!
//! Invariants between calls that return true: no unplaced item's floor is below that of one of its sections. In each
//! section with unplaced items, one of them has the section's floor. `holders` names an item that had it at the last look (like
//! a watched literal, it need not be restored when a decision is taken back).

use crate::layout::problem::{Item, Problem};

/// The share of their gains that weights keep from attempt to attempt. With 1, some problems stay fixed on the wrong
/// sections. With 0, restarts learn nothing.
const WEIGHT_KEPT: f64 = 0.2;
/// A section's range of words before its first item is known. The first item sets it.
const NO_WORDS: (u32, u32) = (u32::MAX, 0);

#[derive(Clone, Copy, Debug)]
enum Undo {
    Section { section: u32, floor: u64, top: u64 },
    Floor { item: u32, floor: u64 },
    Placed { item: u32 },
}

/// Bit sets have one bit per item, in the order of the problem.
#[derive(Clone, Debug)]
pub(in crate::layout) struct Branch {
    /// Per item.
    floors: Vec<u64>,
    /// Per item: the offset at which it is placed.
    pub offsets: Vec<u64>,
    unplaced: Vec<u64>,
    /// Per item, `unplaced.len()` words: the items whose lifetimes overlap its own, and itself.
    neighbours: Vec<u64>,
    /// Per section: its floor, the top of its placed items, its unplaced bytes, and an item at the floor.
    section_floors: Vec<u64>,
    tops: Vec<u64>,
    left: Vec<u64>,
    holders: Vec<u32>,
    /// Per section: the failures seen there, plus one.
    weights: Vec<f64>,
    /// Per section, `unplaced.len()` words: the items that live there. `words` is the range of words that are not zero.
    members: Vec<u64>,
    words: Vec<(u32, u32)>,
    /// Per section and one past the last: the first item that starts there or later.
    first: Vec<u32>,
    trail: Vec<Undo>,
    target: u64,
}

impl Branch {
    pub(super) fn new(problem: &Problem) -> Self {
        let (items, sections) = (problem.items.len(), problem.loads.len());
        let width = items.div_ceil(64);
        let mut members = vec![0u64; sections * width];
        let mut words = vec![NO_WORDS; sections];
        for (i, item) in problem.items.iter().enumerate() {
            let word = (i / 64) as u32;
            for s in item.sections() {
                members[s * width + i / 64] |= 1 << (i % 64);
                words[s] = (word.min(words[s].0), word + 1);
            }
        }
        let first = |s: usize| problem.items.partition_point(|i| (i.lower as usize) < s) as u32;
        Self {
            floors: vec![0; items],
            offsets: vec![0; items],
            unplaced: vec![0; width],
            neighbours: neighbours(problem, &members, width),
            section_floors: vec![0; sections],
            tops: vec![0; sections],
            left: vec![0; sections],
            holders: vec![0; sections],
            weights: vec![1.0; sections],
            members,
            words,
            first: (0..=sections).map(first).collect(),
            trail: Vec::new(),
            target: 0,
        }
    }

    /// Clears the placement and sets the target.
    pub(super) fn reset(&mut self, problem: &Problem, target: u64) {
        self.target = target;
        self.trail.clear();
        self.floors.fill(0);
        self.section_floors.fill(0);
        self.tops.fill(0);
        self.left.copy_from_slice(&problem.loads);
        self.weights.iter_mut().for_each(|w| *w = 1.0 + (*w - 1.0) * WEIGHT_KEPT);
        for i in 0..problem.items.len() {
            self.unplaced[i / 64] |= 1 << (i % 64);
        }
    }

    pub(super) fn mark(&self) -> usize {
        self.trail.len()
    }

    pub(super) fn floor_of(&self, item: usize) -> u64 {
        self.floors[item]
    }

    /// Failures seen in a section, plus one.
    pub(super) fn weight(&self, section: u32) -> f64 {
        self.weights[section as usize]
    }

    /// Whether the section could leave a gap and still keep the target.
    pub(super) fn has_slack(&self, section: u32) -> bool {
        self.section_floors[section as usize] + self.left[section as usize] < self.target
    }

    /// The unplaced items that start in sections `lower..upper`, by start.
    pub(super) fn unplaced_between(&self, lower: u32, upper: u32) -> impl Iterator<Item = usize> {
        let (from, to) = (self.first[lower as usize] as usize, self.first[upper as usize] as usize);
        let word = move |w: usize| {
            let low = if w == from / 64 { u64::MAX << (from % 64) } else { u64::MAX };
            let high = if w == to / 64 { (1 << (to % 64)) - 1 } else { u64::MAX };
            self.unplaced[w] & low & high
        };
        (from / 64..to.div_ceil(64)).flat_map(move |w| bits(w, word(w)))
    }

    /// Places an item at its floor; false if the branch fails.
    pub(super) fn place(&mut self, problem: &Problem, item: u32) -> bool {
        let at = item as usize;
        let this = problem.items[at];
        let offset = self.floors[at];
        let top = offset + this.size;
        self.offsets[at] = offset;
        self.unplaced[at / 64] &= !(1 << (at % 64));
        self.trail.push(Undo::Placed { item });
        let mut rests = offset == 0;
        for s in this.sections() {
            rests |= self.tops[s] == offset;
            self.trail.push(Undo::Section { section: s as u32, floor: self.section_floors[s], top: self.tops[s] });
            self.section_floors[s] = top;
            self.tops[s] = top;
            self.left[s] -= this.size;
        }
        // If the item rests on nothing, it could sink. Another branch contains that layout.
        rests
            && self
                .lift_neighbours(problem, at, top)
                .is_some_and(|(lower, upper)| self.raise_section_floors(lower, upper))
    }

    /// Forbids an unplaced item, and those like it, at its floor; false if the branch fails.
    pub(super) fn forbid(&mut self, problem: &Problem, item: u32) -> bool {
        let at = item as usize;
        let this = problem.items[at];
        let floor = self.floors[at];
        let around = self.neighbours_of(at).enumerate();
        let others = around.flat_map(|(w, near)| bits(w, near)).filter(|&i| i != at);
        // Above its floor, the item must rest on an unplaced item.
        let next = others.map(|i| self.floors[i] + problem.items[i].size).min();
        let Some(next) = next.filter(|next| next + this.size <= self.target) else { return false };
        let (from, to) = (self.first[this.lower as usize] as usize, self.first[this.lower as usize + 1] as usize);
        for i in (from..to).filter(|&i| problem.items[i] == this) {
            if self.is_unplaced(i) && self.floors[i] == floor {
                self.lift(i, next);
            }
        }
        self.raise_section_floors(this.lower, this.upper)
    }

    /// Takes back what was done since the mark.
    pub(super) fn undo(&mut self, problem: &Problem, mark: usize) {
        for undo in self.trail.drain(mark..).rev() {
            match undo {
                Undo::Section { section, floor, top } => {
                    self.section_floors[section as usize] = floor;
                    self.tops[section as usize] = top;
                }
                Undo::Floor { item, floor } => self.floors[item as usize] = floor,
                Undo::Placed { item } => {
                    self.unplaced[item as usize / 64] |= 1 << (item % 64);
                    let item = problem.items[item as usize];
                    self.left[item.sections()].iter_mut().for_each(|left| *left += item.size);
                }
            }
        }
    }

    /// Lifts the items that overlap a placed item in time to its top. Returns the affected span of sections, or `None` if the branch
    /// fails.
    fn lift_neighbours(&mut self, problem: &Problem, at: usize, top: u64) -> Option<(u32, u32)> {
        let Item { mut lower, mut upper, .. } = problem.items[at];
        for w in 0..self.unplaced.len() {
            for i in bits(w, self.neighbours[at * self.unplaced.len() + w] & self.unplaced[w]) {
                if self.floors[i] >= top {
                    continue;
                }
                let item = problem.items[i];
                if top + item.size > self.target {
                    self.weights[item.lower.max(problem.items[at].lower) as usize] += 1.0;
                    return None;
                }
                self.lift(i, top);
                (lower, upper) = (lower.min(item.lower), upper.max(item.upper));
            }
        }
        Some((lower, upper))
    }

    fn lift(&mut self, i: usize, to: u64) {
        let old = std::mem::replace(&mut self.floors[i], to);
        self.trail.push(Undo::Floor { item: i as u32, floor: old });
    }

    /// Raises the floors of sections `lower..upper` to the lowest floor of their unplaced items. Returns false if the branch fails.
    fn raise_section_floors(&mut self, lower: u32, upper: u32) -> bool {
        for s in lower as usize..upper as usize {
            let floor = self.section_floors[s];
            if self.left[s] == 0 || (self.is_held(s) && floor + self.left[s] <= self.target) {
                continue;
            }
            let (least, holder) = self.least(s, floor);
            self.holders[s] = holder as u32;
            if least > floor {
                self.trail.push(Undo::Section { section: s as u32, floor, top: self.tops[s] });
                self.section_floors[s] = least;
            }
            if least + self.left[s] > self.target {
                self.weights[s] += 1.0;
                return false;
            }
        }
        true
    }

    /// Whether the holder of a section is still at the section's floor.
    #[inline]
    fn is_held(&self, section: usize) -> bool {
        let holder = self.holders[section] as usize;
        self.is_unplaced(holder) && self.floors[holder] == self.section_floors[section]
    }

    #[inline]
    fn is_unplaced(&self, item: usize) -> bool {
        self.unplaced[item / 64] >> (item % 64) & 1 == 1
    }

    /// The lowest floor of the unplaced items in a section, and an item that has it. The scan ends at an item with floor `enough`.
    fn least(&self, section: usize, enough: u64) -> (u64, usize) {
        // Larger than all floors; a section with unplaced items has a lower one.
        let mut least = (u64::MAX, 0);
        for i in self.members_of(section) {
            if self.floors[i] < least.0 {
                least = (self.floors[i], i);
                if least.0 == enough {
                    break;
                }
            }
        }
        least
    }

    fn neighbours_of(&self, at: usize) -> impl Iterator<Item = u64> {
        let width = self.unplaced.len();
        self.neighbours[at * width..(at + 1) * width].iter().zip(&self.unplaced).map(|(near, unplaced)| near & unplaced)
    }

    /// The unplaced items that live in a section.
    fn members_of(&self, section: usize) -> impl Iterator<Item = usize> {
        let (from, to) = self.words[section];
        let members = &self.members[section * self.unplaced.len()..(section + 1) * self.unplaced.len()];
        (from as usize..to as usize).flat_map(move |w| bits(w, members[w] & self.unplaced[w]))
    }
}

fn neighbours(problem: &Problem, members: &[u64], width: usize) -> Vec<u64> {
    let mut all = vec![0; problem.items.len() * width];
    for (item, mine) in problem.items.iter().zip(all.chunks_exact_mut(width.max(1))) {
        for section in members[item.lower as usize * width..item.upper as usize * width].chunks_exact(width) {
            mine.iter_mut().zip(section).for_each(|(mine, theirs)| *mine |= theirs);
        }
    }
    all
}

/// The set bits of word `w`, as positions in the whole.
fn bits(w: usize, mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        (word != 0).then(|| {
            word &= word - 1;
            64 * w + bit
        })
    })
}
