//! Exact search for a layout within a target height. Like solvers for job-shop scheduling it uses bounds, propagation and restarts.
//!
//! Buffers are placed bottom up, each on the ground or on another buffer (some optimal layout has this form). The search chooses
//! a section at the lowest open height, and a buffer that could rest there. It first places the buffer there; if that
//! fails, it forbids the buffer there. The remaining items fall into parts that share no section, and each part is solved on its own.
//! If a part cannot be solved, the decision that created it is taken back. Sections in which branches fail gain weight and are
//! chosen earlier (dom/wdeg: Boussemart et al. 2004), across restarts with Luby's limits (1993). The skyline and the split into
//! parts are as in MiniMalloc (Moffitt 2023). The choice between "here" and "not here" is set-times branching from scheduling.
//!
//! Invariant: `frames[k].mark` is the length of the trail before decision `k`.

mod branch;

use branch::Branch;

use crate::layout::aim::Aim;
use crate::layout::problem::Problem;
use crate::layout::random::Random;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// `offsets` contains a layout within the target.
    Found,
    /// No such layout exists.
    Impossible,
    /// The limit of nodes is used up.
    Exhausted,
    /// `stop` returned true; the attempt can continue.
    Paused,
}

/// A span of sections that is still to be solved and shares no unplaced buffer with the rest.
#[derive(Clone, Copy, Debug)]
struct Subproblem {
    lower: u32,
    upper: u32,
    /// The decision that created this part; `None` for the whole.
    parent: Option<u32>,
    /// The next part to solve, as an index into `ExactSearch::parts`.
    next: Option<u32>,
}

impl Subproblem {
    /// A part without parent and successor: the whole, or the empty part when everything is placed.
    fn of(lower: u32, upper: u32) -> Subproblem {
        Subproblem { lower, upper, parent: None, next: None }
    }

    fn is_empty(&self) -> bool {
        self.lower == self.upper
    }
}

/// A decision: an item placed in a part.
#[derive(Clone, Copy, Debug)]
struct Frame {
    part: Subproblem,
    item: u32,
    mark: usize,
    /// Length of `ExactSearch::parts` before the decision.
    parts: usize,
}

/// Nodes of the shortest attempt, unless the problem has more items: each item takes at least one node. An attempt is this short
/// so that a restart soon takes back a wrong early decision.
const SHORTEST_ATTEMPT: u64 = 500;
/// How far chance moves a key of an attempt, as a share of the key. It is half the noise of a weighted pass, because the weights of
/// sections already make attempts differ.
const NOISE: f64 = 0.1;
/// A size equal to the bound counts as much as this many sections of duration. Long items are placed before short ones. Size decides
/// among items of similar duration, since most sizes are far below the bound.
const SIZE_WEIGHT: f64 = 10.0;
/// Nodes between two calls of `stop`. One node of the largest problem takes far longer than reading the clock; one node of a small
/// problem does not.
const NODES_PER_QUESTION: u64 = 16;
/// The largest size of the bit sets in words, 256 KiB. Larger problems are not searched: a node may walk over a good part of the bit
/// sets, and weighted passes achieve more in the same time.
const LARGEST_BIT_SETS: usize = 1 << 15;

/// The search, with the section weights that earlier attempts raised.
#[derive(Clone, Debug)]
pub(super) struct ExactSearch {
    branch: Branch,
    key: Vec<f64>,
    frames: Vec<Frame>,
    parts: Vec<Subproblem>,
    part: Subproblem,
    /// Candidates that cover each section, while an item is being chosen; otherwise zero.
    options: Vec<i32>,
    /// Items at the lowest floor, while an item is being chosen; otherwise empty.
    lowest: Vec<u32>,
    nodes: u64,
    limit: u64,
    attempts: u64,
    pub(super) aim: Aim,
    random: Random,
}

impl ExactSearch {
    /// `None` if the problem is too large for the search.
    pub(super) fn new(problem: &Problem) -> Option<Self> {
        let (items, sections) = (problem.items.len(), problem.loads.len());
        if items.div_ceil(64).saturating_mul(sections) > LARGEST_BIT_SETS {
            return None;
        }
        Some(Self {
            branch: Branch::new(problem),
            key: vec![0.0; items],
            frames: Vec::new(),
            parts: Vec::new(),
            part: Subproblem::of(0, 0),
            options: vec![0; sections + 1],
            lowest: Vec::new(),
            nodes: 0,
            limit: 0,
            attempts: 0,
            aim: Aim::new(2),
            random: Random::of(problem),
        })
    }

    /// The offsets of the layout that the search found.
    pub(super) fn offsets(&self) -> &[u64] {
        &self.branch.offsets
    }

    /// Starts an attempt at a height from `low` on and below `height`.
    pub(super) fn begin(&mut self, problem: &Problem, low: u64, height: u64) {
        let target = self.aim.next(low, height, problem.grain);
        self.attempts += 1;
        self.nodes = 0;
        self.limit = SHORTEST_ATTEMPT.max(problem.items.len() as u64) * luby(self.attempts);
        for (key, item) in self.key.iter_mut().zip(&problem.items) {
            let share = item.size as f64 / problem.bound as f64;
            *key = (item.duration() as f64 + SIZE_WEIGHT * share) * self.random.around_one(NOISE);
        }
        self.branch.reset(problem, target);
        self.frames.clear();
        self.parts.clear();
        self.part = Subproblem::of(0, problem.loads.len() as u32);
    }

    /// Continues the attempt until it ends or `stop` returns true.
    pub(super) fn advance(&mut self, problem: &Problem, stop: &mut dyn FnMut() -> bool) -> Outcome {
        while self.nodes < self.limit {
            if let Some(end) = self.decide(problem) {
                return end;
            }
            self.nodes += 1;
            if self.nodes.is_multiple_of(NODES_PER_QUESTION) && stop() {
                return Outcome::Paused;
            }
        }
        Outcome::Exhausted
    }

    /// Places one more item, or backtracks if that fails. Returns how the attempt ended, if this step ended it.
    fn decide(&mut self, problem: &Problem) -> Option<Outcome> {
        let item = self.choose(problem);
        self.frames.push(Frame { part: self.part, item, mark: self.branch.mark(), parts: self.parts.len() });
        if !self.branch.place(problem, item) {
            return (!self.backtrack(problem)).then_some(Outcome::Impossible);
        }
        self.split(problem);
        self.part.is_empty().then_some(Outcome::Found)
    }

    /// Takes back decisions until one of them can be forbidden instead. Returns whether there was one.
    fn backtrack(&mut self, problem: &Problem) -> bool {
        while let Some(frame) = self.frames.pop() {
            self.branch.undo(problem, frame.mark);
            self.parts.truncate(frame.parts);
            self.part = frame.part;
            if self.branch.forbid(problem, frame.item) {
                return true;
            }
            let Some(parent) = frame.part.parent else { return false };
            self.frames.truncate(parent as usize + 1);
        }
        false
    }

    /// Splits the current part after a decision and takes up the first piece; an empty part if nothing is left.
    fn split(&mut self, problem: &Problem) {
        let whole = self.part;
        let mut next = whole.next;
        let mut piece: Option<(u32, u32)> = None;
        let parent = Some(self.frames.len() as u32 - 1);
        for i in self.branch.unplaced_between(whole.lower, whole.upper) {
            let item = problem.items[i];
            piece = match piece {
                Some((lower, upper)) if item.lower < upper => Some((lower, upper.max(item.upper))),
                Some((lower, upper)) => {
                    self.parts.push(Subproblem { lower, upper, parent, next });
                    next = Some(self.parts.len() as u32 - 1);
                    Some((item.lower, item.upper))
                }
                None => Some((item.lower, item.upper)),
            };
        }
        self.part = match (piece, next) {
            (Some((lower, upper)), _) => Subproblem { lower, upper, parent, next },
            (None, Some(next)) => self.parts[next as usize],
            (None, None) => Subproblem::of(0, 0),
        };
    }

    /// The next item to place: an item at the lowest height, in the section with the fewest options relative to its weight.
    fn choose(&mut self, problem: &Problem) -> u32 {
        let part = self.part;
        let branch = &self.branch;
        self.lowest.clear();
        // Larger than every floor, until the loop sees one.
        let mut height = u64::MAX;
        for i in branch.unplaced_between(part.lower, part.upper) {
            let floor = branch.floor_of(i);
            if floor < height {
                height = floor;
                self.lowest.clear();
            }
            if floor == height {
                self.lowest.push(i as u32);
            }
        }
        for item in self.lowest.iter().map(|&i| &problem.items[i as usize]) {
            self.options[item.lower as usize] += 1;
            self.options[item.upper as usize] -= 1;
        }
        let (mut options, mut section, mut least) = (0, 0, f64::INFINITY);
        for s in part.lower..=part.upper {
            options += std::mem::take(&mut self.options[s as usize]);
            if options > 0 {
                let score = (f64::from(options) + f64::from(branch.has_slack(s))) / branch.weight(s);
                if score < least {
                    (section, least) = (s, score);
                }
            }
        }
        let lives = |i: &u32| problem.items[*i as usize].sections().contains(&(section as usize));
        let best = |a: &u32, b: &u32| self.key[*a as usize].total_cmp(&self.key[*b as usize]);
        // A part that is not empty has an item at the lowest floor, so this finds an item.
        self.lowest.drain(..).filter(lives).max_by(best).unwrap_or(0)
    }
}

/// Luby's sequence: 1 1 2 1 1 2 4 ..; `at` starts at 1.
fn luby(mut at: u64) -> u64 {
    loop {
        let bits = 64 - at.leading_zeros();
        if at == (1 << bits) - 1 {
            return 1 << (bits - 1);
        }
        at -= (1 << (bits - 1)) - 1;
    }
}
