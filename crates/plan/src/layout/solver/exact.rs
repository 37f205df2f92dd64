//! The exact search, which alternates with weighted passes.

use super::{Job, Solver};
use crate::layout::search::{ExactSearch, Outcome};
use crate::layout::{Buffer, TooLarge};

impl Solver {
    /// A solver that also searches exactly, so that it can prove heights impossible. The search is worthwhile for up to a few hundred
    /// tightly packed buffers. Other problems meet the lower bound without it.
    ///
    /// # Errors
    /// The sizes sum to more than 2^62.
    ///
    /// ```
    /// use gpucache_plan::{Buffer, Solver};
    /// let buffers = [Buffer { lower: 0, upper: 2, size: 3 }, Buffer { lower: 1, upper: 3, size: 4 }];
    /// let mut solver = Solver::exact(&buffers)?;
    /// assert!(solver.improve(0, &mut || false));
    /// assert_eq!(solver.height(), solver.bound());
    /// # Ok::<(), gpucache_plan::TooLarge>(())
    /// ```
    pub fn exact(buffers: &[Buffer]) -> Result<Self, TooLarge> {
        let mut solver = Self::new(buffers)?;
        solver.search = ExactSearch::new(&solver.problem);
        Ok(solver)
    }

    /// Begins an attempt if it is the search's turn.
    pub(super) fn begin_search(&mut self, job: usize, low: u64) -> bool {
        let Some(search) = &mut self.search else { return false };
        if !job.is_multiple_of(2) {
            return false;
        }
        search.begin(&self.problem, low, self.height);
        self.job = Some(Job::Search);
        true
    }

    /// Returns false if `stop` returned true.
    pub(super) fn go_on_searching(&mut self, stop: &mut dyn FnMut() -> bool) -> bool {
        let Some(search) = &mut self.search else { return true };
        let outcome = search.advance(&self.problem, stop);
        match outcome {
            Outcome::Paused => return false,
            Outcome::Exhausted | Outcome::Found => {}
            Outcome::Impossible => self.bound = search.aim.target() + self.problem.grain,
        }
        search.aim.report(outcome == Outcome::Found);
        if outcome == Outcome::Found {
            let offsets = search.offsets().to_vec();
            let ends = offsets.iter().zip(&self.problem.items).map(|(o, i)| o + i.size);
            let height = ends.max().unwrap_or(0);
            self.adopt(offsets, height);
        }
        self.job = None;
        true
    }
}
