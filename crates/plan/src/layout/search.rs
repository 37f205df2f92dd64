//! Exact search for a layout within a target height, after job-shop practice: bounds, propagation, restarts.
//!
//! Buffers are placed bottom up, each on the ground or on another one (some optimal layout is like that). At the lowest
//! open height, a section is chosen, and one of the buffers that could rest there: first it is placed, then, should that
//! fail, forbidden there. What is left falls into parts that share no section; each is solved on its own, and a part that
//! cannot be solved takes back the decision that made it. Sections where branches fail gain weight and are chosen earlier
//! (dom/wdeg: Boussemart et al. 2004), across restarts with Luby's limits (1993). The skyline and the split into parts are
//! as in MiniMalloc (Moffitt 2023), the choice between "here" and "not here" as in set-times branching for scheduling.
//!
//! Invariant: `frames[k].mark` is the length of the trail before decision `k`.

mod branch;

use branch::Branch;

use crate::layout::problem::Problem;
use crate::layout::random::Random;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// `offsets` hold a layout within the target.
    Found,
    /// There is none.
    Impossible,
    /// The limit of nodes is used up.
    Exhausted,
    /// Asked to stop; the attempt can go on.
    Paused,
}

/// Sections of a time span that share no unplaced buffer with the rest, still to solve.
#[derive(Clone, Copy, Debug)]
struct Part {
    lower: u32,
    upper: u32,
    /// The decision that made it, but for the whole.
    parent: Option<u32>,
    /// The part to solve after this one, in `Search::parts`, if there is one.
    next: Option<u32>,
}

impl Part {
    /// The whole, or what is left of it once nothing is.
    fn of(lower: u32, upper: u32) -> Part {
        Part { lower, upper, parent: None, next: None }
    }

    fn is_empty(&self) -> bool {
        self.lower == self.upper
    }
}

/// A decision: an item placed in a part.
#[derive(Clone, Copy, Debug)]
struct Frame {
    part: Part,
    item: u32,
    mark: usize,
    /// Length of `Search::parts` before it.
    parts: usize,
}

/// Nodes of the shortest attempt, unless there are more items: each item takes one node at least, and a restart is to come soon
/// enough for a wrong early decision to be taken back.
const SHORTEST_ATTEMPT: u64 = 500;
/// How far chance moves a key of an attempt, as a share of it: half as far as that of a weighted pass, as weights of sections
/// make attempts differ already.
const NOISE: f64 = 0.1;
/// Sections of duration that a size as large as the bound is worth: long items are placed before short ones, and size decides
/// among those of like duration, since sizes are mostly far below the bound.
const SIZE_WEIGHT: f64 = 10.0;
/// Nodes between two questions whether to stop: one node of the largest problem that is searched takes longer than a look at the
/// clock by far, one of a small problem does not.
const NODES_PER_QUESTION: u64 = 16;
/// Words of bit sets, 256 KiB, beyond which a problem is not searched: a node may walk a good part of them, and in larger
/// problems weighted passes do more in the same time.
const LARGEST_BIT_SETS: usize = 1 << 15;

/// The search, with what its attempts have learned.
#[derive(Clone, Debug)]
pub(super) struct Search {
    branch: Branch,
    key: Vec<f64>,
    frames: Vec<Frame>,
    parts: Vec<Part>,
    part: Part,
    /// Candidates covering each section, while choosing; zero otherwise.
    options: Vec<i32>,
    /// Items at the lowest floor, while choosing; empty otherwise.
    lowest: Vec<u32>,
    nodes: u64,
    limit: u64,
    attempts: u64,
    random: Random,
}

impl Search {
    /// `None` where the problem is too large for it.
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
            part: Part::of(0, 0),
            options: vec![0; sections + 1],
            lowest: Vec::new(),
            nodes: 0,
            limit: 0,
            attempts: 0,
            random: Random::of(problem),
        })
    }

    /// The layout found.
    pub(super) fn offsets(&self) -> &[u64] {
        &self.branch.offsets
    }

    /// Starts an attempt.
    pub(super) fn begin(&mut self, problem: &Problem, target: u64) {
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
        self.part = Part::of(0, problem.loads.len() as u32);
    }

    /// Goes on with the attempt until it ends or `stop` says so.
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

    /// Places one more item, or takes back what led to where none can be placed. How the attempt ended, if it did by that.
    fn decide(&mut self, problem: &Problem) -> Option<Outcome> {
        let item = self.choose(problem);
        self.frames.push(Frame { part: self.part, item, mark: self.branch.mark(), parts: self.parts.len() });
        if !self.branch.place(problem, item) {
            return (!self.backtrack(problem)).then_some(Outcome::Impossible);
        }
        self.split(problem);
        self.part.is_empty().then_some(Outcome::Found)
    }

    /// Takes back decisions until one can be forbidden instead.
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

    /// Splits the part in hand after a decision, and takes up the first piece; an empty part if nothing is left.
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
                    self.parts.push(Part { lower, upper, parent, next });
                    next = Some(self.parts.len() as u32 - 1);
                    Some((item.lower, item.upper))
                }
                None => Some((item.lower, item.upper)),
            };
        }
        self.part = match (piece, next) {
            (Some((lower, upper)), _) => Part { lower, upper, parent, next },
            (None, Some(next)) => self.parts[next as usize],
            (None, None) => Part::of(0, 0),
        };
    }

    /// The next item to place: at the lowest height, in the section with the fewest options for its weight.
    fn choose(&mut self, problem: &Problem) -> u32 {
        let part = self.part;
        let branch = &self.branch;
        self.lowest.clear();
        // Above all floors, until one is seen.
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
        // Of a part that is not empty, some item is at the lowest floor: there always is one.
        self.lowest.drain(..).filter(lives).max_by(best).unwrap_or(0)
    }
}

/// Luby's sequence: 1 1 2 1 1 2 4 ..; `at` counts from 1.
fn luby(mut at: u64) -> u64 {
    loop {
        let bits = 64 - at.leading_zeros();
        if at == (1 << bits) - 1 {
            return 1 << (bits - 1);
        }
        at -= (1 << (bits - 1)) - 1;
    }
}
