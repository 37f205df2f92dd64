//! Decides which job runs next. The portfolio of fast skyline passes and a pass backwards in time come first. Then come
//! conflict-weighted passes. With the feature `exact` they alternate with an exact search. Each aims at a height between the proven
//! bound and the best known height. The caller may split the work into slices as short as it likes.
//!
//! Invariants: `offsets` is a valid layout of height `height`. No layout is lower than `bound`. The sequence of results depends on
//! the problem alone; time decides only how far the solver gets.

#[cfg(feature = "exact")]
mod exact;

use crate::layout::aim::Aim;
use crate::layout::backward::Backward;
use crate::layout::portfolio::{self, ORDERS};
use crate::layout::problem::Problem;
use crate::layout::random::Random;
use crate::layout::restart;
#[cfg(feature = "exact")]
use crate::layout::search::ExactSearch;
use crate::layout::skyline::{Progress, Skyline, UNLIMITED};
use crate::layout::{Buffer, Layout, TooLarge, check};

/// The current job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// A pass of the portfolio.
    Portfolio,
    /// The pass backwards in time.
    Backward,
    /// A weighted pass.
    Restart,
    /// An attempt of the exact search.
    #[cfg(feature = "exact")]
    Search,
}

/// Jobs that every problem gets: the portfolio's passes, and the pass backwards in time after the first of them, which often meets
/// the bound.
const FIRST_JOBS: usize = ORDERS + 1;
/// The index of the pass backwards in time.
const BACKWARD: usize = 1;
/// Number of buffers beyond which a pass takes 10 ms or more. The portfolio then stops a little above the bound.
const LARGE_PROBLEM: usize = 1 << 15;
/// For large problems the portfolio stops within this fraction of the bound: less than 1%, which saves up to three passes.
const SPARE_SHARE: u64 = 128;

/// Lays out one set of buffers; the longer it works, the better the layout.
///
/// It starts with all buffers stacked. Each call of [`improve`](Self::improve) continues where the last one stopped.
///
/// ```
/// use gpucache_plan::{Buffer, Solver};
/// let buffers = [Buffer { lower: 0, upper: 2, size: 3 }, Buffer { lower: 2, upper: 3, size: 4 }];
/// let mut solver = Solver::new(&buffers)?;
/// solver.improve(0, &mut || false);
/// assert_eq!(solver.height(), 4);
/// # Ok::<(), gpucache_plan::TooLarge>(())
/// ```
#[derive(Clone, Debug)]
pub struct Solver {
    problem: Problem,
    peaks: Vec<u64>,
    skyline: Skyline,
    backward: Backward,
    /// The weight of each item for restarts: the number of passes that failed while it was still unplaced, plus one.
    weights: Vec<f64>,
    random: Random,
    #[cfg(feature = "exact")]
    /// `None` if it is not wanted, or the problem is too large for it.
    search: Option<ExactSearch>,
    job: Option<Job>,
    /// Number of jobs begun so far.
    jobs: usize,
    pass_aim: Aim,
    offsets: Vec<u64>,
    height: u64,
    bound: u64,
}

impl Solver {
    /// A solver for these buffers that has done no work yet.
    ///
    /// # Errors
    /// The sizes sum to more than 2^62.
    ///
    /// ```
    /// use gpucache_plan::{Buffer, Solver};
    /// let buffers = [Buffer { lower: 0, upper: 2, size: 3 }, Buffer { lower: 1, upper: 3, size: 4 }];
    /// let solver = Solver::new(&buffers)?;
    /// assert_eq!(solver.height(), 7); // stacked
    /// # Ok::<(), gpucache_plan::TooLarge>(())
    /// ```
    pub fn new(buffers: &[Buffer]) -> Result<Self, TooLarge> {
        let problem = Problem::new(buffers)?;
        let mut height = 0;
        let mut offsets = Vec::with_capacity(problem.items.len());
        for item in &problem.items {
            offsets.push(height);
            height += item.size;
        }
        Ok(Self {
            offsets,
            height,
            bound: problem.bound,
            peaks: Vec::new(),
            skyline: Skyline::new(&problem),
            backward: Backward::default(),
            weights: vec![1.0; problem.items.len()],
            random: Random::of(&problem),
            #[cfg(feature = "exact")]
            search: None,
            job: None,
            jobs: 0,
            pass_aim: Aim::new(1),
            problem,
        })
    }

    /// The height of the best layout so far, in bytes.
    ///
    /// ```
    /// use gpucache_plan::{Buffer, Solver};
    /// let buffers = [Buffer { lower: 0, upper: 1, size: 3 }, Buffer { lower: 1, upper: 2, size: 4 }];
    /// let mut solver = Solver::new(&buffers)?;
    /// assert_eq!(solver.height(), 7); // stacked
    /// solver.improve(0, &mut || false);
    /// assert_eq!(solver.height(), 4);
    /// # Ok::<(), gpucache_plan::TooLarge>(())
    /// ```
    pub fn height(&self) -> u64 {
        self.height
    }

    /// A height that no layout is below: the largest load, or more if the search has proved more.
    ///
    /// ```
    /// use gpucache_plan::{Buffer, Solver};
    /// let buffers = [Buffer { lower: 0, upper: 2, size: 3 }, Buffer { lower: 1, upper: 3, size: 4 }];
    /// let solver = Solver::new(&buffers)?;
    /// assert_eq!(solver.bound(), 7); // both are alive at the time 1
    /// # Ok::<(), gpucache_plan::TooLarge>(())
    /// ```
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// The best layout so far.
    ///
    /// ```
    /// use gpucache_plan::{Buffer, Solver, check};
    /// let buffers = [Buffer { lower: 0, upper: 2, size: 3 }, Buffer { lower: 1, upper: 3, size: 4 }];
    /// let solver = Solver::new(&buffers)?;
    /// assert_eq!(check(&buffers, &solver.layout()), Ok(()));
    /// # Ok::<(), gpucache_plan::TooLarge>(())
    /// ```
    pub fn layout(&self) -> Layout {
        Layout { offsets: self.problem.expand(&self.offsets), height: self.height }
    }

    /// Adopts a layout of the same buffers if it is valid, and lower than the best one so far.
    ///
    /// ```
    /// use gpucache_plan::{Buffer, Layout, Solver};
    /// let buffers = [Buffer { lower: 0, upper: 1, size: 3 }, Buffer { lower: 1, upper: 2, size: 4 }];
    /// let mut solver = Solver::new(&buffers)?;
    /// solver.offer(&Layout { offsets: vec![0, 1], height: 5 });
    /// assert_eq!(solver.height(), 5);
    /// # Ok::<(), gpucache_plan::TooLarge>(())
    /// ```
    pub fn offer(&mut self, layout: &Layout) {
        let Some(offsets) = self.problem.shrink(&layout.offsets) else { return };
        let of_items = Layout { offsets, height: layout.height };
        if check(&self.problem.items, &of_items).is_ok() {
            self.adopt(of_items.offsets, of_items.height);
        }
    }

    /// Works until the height is at most `target`, or proven minimal, or `stop` returns true. Calls `stop` about every 50 us.
    /// Returns whether the target is reached or no lower layout is possible.
    ///
    /// ```
    /// use gpucache_plan::{Buffer, Solver};
    /// let buffers = [Buffer { lower: 0, upper: 2, size: 3 }, Buffer { lower: 1, upper: 3, size: 4 }];
    /// let mut solver = Solver::new(&buffers)?;
    /// let start = std::time::Instant::now();
    /// let is_done = solver.improve(0, &mut || start.elapsed().as_millis() >= 10);
    /// assert!(is_done, "nothing lower is possible");
    /// # Ok::<(), gpucache_plan::TooLarge>(())
    /// ```
    pub fn improve(&mut self, target: u64, stop: &mut dyn FnMut() -> bool) -> bool {
        while !self.done(target) {
            let has_ended = self.go_on(target, stop);
            if !has_ended || (!self.done(target) && stop()) {
                return false;
            }
        }
        true
    }

    /// Runs the portfolio and the pass backwards in time, without a time limit.
    ///
    /// ```
    /// use gpucache_plan::{Buffer, Solver};
    /// let buffers = [Buffer { lower: 0, upper: 1, size: 3 }, Buffer { lower: 1, upper: 2, size: 4 }];
    /// let mut solver = Solver::new(&buffers)?;
    /// solver.run_portfolio();
    /// assert_eq!(solver.height(), 4);
    /// # Ok::<(), gpucache_plan::TooLarge>(())
    /// ```
    pub fn run_portfolio(&mut self) {
        let spare = if self.problem.items.len() > LARGE_PROBLEM { self.problem.bound / SPARE_SHARE } else { 0 };
        while !self.done(self.bound + spare) && (self.jobs < FIRST_JOBS || self.job.is_some()) {
            self.go_on(0, &mut || false);
        }
    }

    fn done(&self, target: u64) -> bool {
        self.height <= target.max(self.bound)
    }

    fn begin(&mut self, target: u64) {
        let grain = self.problem.grain;
        let low = self.bound.max(target / grain * grain);
        let job = self.jobs;
        self.jobs += 1;
        if job < FIRST_JOBS {
            return self.begin_first(job);
        }
        #[cfg(feature = "exact")]
        if self.begin_search(job, low) {
            return;
        }
        let order = restart::order(&self.problem, &self.peaks, &self.weights, &mut self.random);
        let aim = self.pass_aim.next(low, self.height, grain);
        self.skyline.begin(&self.problem, order, aim);
        self.job = Some(Job::Restart);
    }

    fn begin_first(&mut self, job: usize) {
        if job == BACKWARD {
            self.backward = Backward::new(&self.problem);
            self.job = Some(Job::Backward);
            return;
        }
        let pass = if job > BACKWARD { job - 1 } else { job };
        if pass == 1 {
            self.peaks = portfolio::peaks(&self.problem);
        }
        let order = portfolio::order(&self.problem, pass, &self.peaks);
        let target = if pass == 0 { UNLIMITED } else { self.height - 1 };
        self.skyline.begin(&self.problem, order, target);
        self.job = Some(Job::Portfolio);
    }

    /// Continues the current job, or begins the next one. Returns false if `stop` returned true.
    fn go_on(&mut self, target: u64, stop: &mut dyn FnMut() -> bool) -> bool {
        if self.job.is_none() {
            self.begin(target);
        }
        match self.job {
            #[cfg(feature = "exact")]
            Some(Job::Search) => self.go_on_searching(stop),
            Some(Job::Backward) => self.go_on_backward(stop),
            _ => self.go_on_passing(stop),
        }
    }

    /// Returns false if `stop` returned true.
    fn go_on_passing(&mut self, stop: &mut dyn FnMut() -> bool) -> bool {
        let progress = self.skyline.advance(&self.problem, stop);
        match progress {
            Progress::Paused => return false,
            Progress::Done(height) => {
                let offsets = self.skyline.offsets.clone();
                self.adopt(offsets, height);
            }
            Progress::Failed(section) => {
                self.skyline.unplaced(&self.problem, section).for_each(|item| self.weights[item] += 1.0);
            }
        }
        if self.job == Some(Job::Restart) {
            self.pass_aim.report(matches!(progress, Progress::Done(_)));
        }
        self.job = None;
        true
    }

    /// Returns false if `stop` returned true.
    fn go_on_backward(&mut self, stop: &mut dyn FnMut() -> bool) -> bool {
        let Some(height) = self.backward.advance(&self.problem, stop) else { return false };
        let offsets = std::mem::take(&mut self.backward).offsets;
        self.adopt(offsets, height);
        self.job = None;
        true
    }

    fn adopt(&mut self, offsets: Vec<u64>, height: u64) {
        if height < self.height {
            (self.offsets, self.height) = (offsets, height);
        }
    }
}
