//! The skyline pass. It takes a valley of the skyline and places on it the best-ranked buffer that fits wholly. If no buffer fits,
//! it raises the valley to its lower neighbour.
//!
//! Textbooks take the lowest line first (Burke, Kendall and Whitwell 2004). But valleys fill independently until they reach the
//! height of a neighbour, so any valley will do, and walking downhill to the next valley needs no heap.
//!
//! A line is a run of sections of one height. A valley is a line that is no higher than its neighbours. A raise wastes the
//! memory that it covers. A pass with a target ends as soon as a section has wasted more than the target minus the
//! section's load, unless all items of that section are placed already.
//!
//! Invariants: lines tile the sections; neighbouring lines differ in height; every buffer rests on the ground or on another
//! one, so heights stay within the sum of all sizes.

use crate::layout::index::{Index, NO_RANK};
use crate::layout::problem::{Item, LARGEST_SUM, Problem};

/// Where a pass stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// All items are placed, and this is the height.
    Done(u64),
    /// The target is out of reach; this section shows it.
    Failed(u32),
    /// `stop` returned true; the pass can continue.
    Paused,
}

/// Working space of passes over one problem.
#[derive(Clone, Debug)]
pub(super) struct Skyline {
    index: Index,
    order: Vec<u32>,
    /// Height of the line that starts at a section, if a line starts there.
    height: Vec<u64>,
    /// End of the line that starts at a section.
    end: Vec<u32>,
    /// Start of the line whose last section this is.
    start: Vec<u32>,
    /// Start of the current line.
    at: u32,
    /// Bytes that each section may still waste under the target; `UNBOUNDED` if all of its items are placed.
    slack: Vec<i64>,
    target: u64,
    left: usize,
    top: u64,
    /// The layout so far, per item.
    pub offsets: Vec<u64>,
}

/// A line with its neighbours.
#[derive(Clone, Copy, Debug)]
struct Line {
    start: u32,
    end: u32,
    height: u64,
    /// Start of the line to the left, if it exists.
    before: u32,
    /// Heights of the neighbours, `GONE` at the ends of time.
    left: u64,
    right: u64,
}

/// The height beyond both ends of time: larger than any real height.
const GONE: u64 = u64::MAX;
/// No target. No sum of sizes is above this number, so no height is either.
pub(super) const UNLIMITED: u64 = LARGEST_SUM;
/// The slack of a section in which all items are placed. It stays positive, however much is wasted there.
const UNBOUNDED: i64 = i64::MAX;
/// Lines visited between two calls of `stop`. They take about 20 us, so reading the clock costs little in comparison.
const LINES_PER_QUESTION: usize = 64;

impl Line {
    /// The start of a lower neighbour, if a neighbour is lower.
    #[inline]
    fn downhill(&self) -> Option<u32> {
        let is_valley = self.left.min(self.right) >= self.height;
        let lower = if self.left < self.height { self.before } else { self.end };
        (!is_valley).then_some(lower)
    }
}

impl Skyline {
    pub(super) fn new(problem: &Problem) -> Self {
        let sections = problem.loads.len();
        Self {
            index: Index::new(problem),
            order: Vec::new(),
            height: vec![GONE; sections],
            end: vec![0; sections],
            start: vec![0; sections],
            at: 0,
            slack: vec![0; sections],
            target: 0,
            left: 0,
            top: 0,
            offsets: vec![0; problem.items.len()],
        }
    }

    /// Starts a pass that prefers items that are earlier in `order`, and fails above `target`.
    pub(super) fn begin(&mut self, problem: &Problem, order: Vec<u32>, target: u64) {
        self.index.fill(&order);
        self.order = order;
        self.at = 0;
        self.target = target;
        for (slack, &load) in self.slack.iter_mut().zip(&problem.loads) {
            *slack = target as i64 - load as i64;
        }
        self.left = self.order.len();
        self.top = 0;
        if self.left > 0 {
            self.line(0, problem.loads.len() as u32, 0);
        }
    }

    /// Continues the pass until it ends or `stop` returns true.
    pub(super) fn advance(&mut self, problem: &Problem, stop: &mut dyn FnMut() -> bool) -> Progress {
        loop {
            for _ in 0..LINES_PER_QUESTION {
                if self.left == 0 {
                    return Progress::Done(self.top);
                }
                if let Err(section) = self.step(problem) {
                    return Progress::Failed(section);
                }
            }
            if stop() {
                return Progress::Paused;
            }
        }
    }

    /// The items of a section that the pass has not placed yet.
    pub(super) fn unplaced(&self, problem: &Problem, section: u32) -> impl Iterator<Item = usize> {
        let lives = move |i: &Item| i.lower <= section && section < i.upper;
        let started = problem.items.partition_point(|i| i.lower <= section);
        let items = problem.items[..started].iter().enumerate().filter(move |(_, i)| lives(i)).map(|(id, _)| id);
        items.filter(|&id| self.index.holds(id as u32))
    }

    /// Walks downhill, or places a buffer on the current line, or raises that line.
    fn step(&mut self, problem: &Problem) -> Result<(), u32> {
        let valley = self.line_in_hand();
        if let Some(lower) = valley.downhill() {
            self.at = lower;
            return Ok(());
        }
        match self.index.best(valley.start, valley.end) {
            NO_RANK => self.raise(valley),
            rank => self.place(problem, valley, self.order[rank as usize]),
        }
    }

    #[inline]
    fn line_in_hand(&self) -> Line {
        let start = self.at;
        let (end, height) = (self.end[start as usize], self.height[start as usize]);
        let before = if start > 0 { self.start[start as usize - 1] } else { start };
        let left = if start > 0 { self.height[before as usize] } else { GONE };
        let right = self.height.get(end as usize).copied().unwrap_or(GONE);
        Line { start, end, height, before, left, right }
    }

    /// Raises a line to its lower neighbour, because no buffer fits on it.
    #[inline]
    fn raise(&mut self, line: Line) -> Result<(), u32> {
        let to = line.left.min(line.right);
        if self.target != UNLIMITED {
            self.waste(line.start, line.end, line.height, to - line.height)?;
        }
        self.level(line.start, line.end, (line.before, line.left), line.right, to);
        Ok(())
    }

    /// Places an item on a line that is wide enough. Sections of the line beside the item keep their height.
    #[inline]
    fn place(&mut self, problem: &Problem, line: Line, id: u32) -> Result<(), u32> {
        let item = problem.items[id as usize];
        let top = line.height + item.size;
        if top > self.target {
            return Err(item.lower);
        }
        self.index.take(id);
        self.offsets[id as usize] = line.height;
        self.top = self.top.max(top);
        self.left -= 1;
        // Beside the item is a neighbour of the line, or the rest of the line, which is lower than the item's top.
        let left = if line.start == item.lower { line.left } else { GONE };
        let right = if line.end == item.upper { line.right } else { GONE };
        self.level(item.lower, item.upper, (line.before, left), right, top);
        if line.start < item.lower {
            self.line(line.start, item.lower, line.height);
        }
        if item.upper < line.end {
            self.line(item.upper, line.end, line.height);
        }
        Ok(())
    }

    /// Makes a line of sections `start..end` at a height, joins it with neighbours of that height, and makes it the current line.
    fn level(&mut self, start: u32, end: u32, (before, left): (u32, u64), right: u64, height: u64) {
        let from = if left == height { before } else { start };
        let to = if right == height { self.end[end as usize] } else { end };
        self.line(from, to, height);
    }

    /// Counts the waste of raising the line at `height` by `by` bytes. Fails if the target is then out of reach.
    fn waste(&mut self, start: u32, end: u32, height: u64, by: u64) -> Result<(), u32> {
        let range = start as usize..end as usize;
        let mut signs = 0;
        for slack in &mut self.slack[range.clone()] {
            *slack -= by as i64;
            signs |= *slack;
        }
        if signs >= 0 {
            return Ok(());
        }
        for (s, slack) in range.clone().zip(&mut self.slack[range]).filter(|(_, slack)| **slack < 0) {
            // If the live sizes and the earlier waste sum up to the height, all items of the section are placed.
            if self.target as i64 - *slack - by as i64 != height as i64 {
                return Err(s as u32);
            }
            *slack = UNBOUNDED;
        }
        Ok(())
    }

    /// Makes a line, which becomes the current one.
    fn line(&mut self, start: u32, end: u32, height: u64) {
        self.height[start as usize] = height;
        self.end[start as usize] = end;
        self.start[end as usize - 1] = start;
        self.at = start;
    }
}
