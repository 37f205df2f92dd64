//! A layout of an envelope, and what is left to improve in it.

use std::time::{Duration, Instant};

use gpucache_plan::entries::Envelope;
use gpucache_plan::{Buffer, Layout, Solver, check};

/// A layout that was proved to hold, of buffers that an envelope needs.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) buffers: Vec<Buffer>,
    pub(super) layout: Layout,
    /// Buffers that have a place.
    pub(super) positions: u64,
    /// No layout is lower.
    pub(super) bound: u64,
    /// `None` once nothing lower is possible, or was not found for long.
    solver: Option<Box<Solver>>,
    slices: u32,
    /// When the last slice ended.
    paused: Instant,
}

/// The longest that a layout is worked on at first, unless the portfolio takes longer. The entry in
/// which a plan is made takes that much longer; what it lacks then is found in slices.
const FIRST_SLICE: Duration = Duration::from_millis(10);
/// The longest that one call improves a layout later.
const LATER_SLICE: Duration = Duration::from_millis(1);
/// The time between two calls that improve a layout, so that they take 2% of a program's time at most.
const BETWEEN_SLICES: Duration = Duration::from_millis(50);
/// Slices before a layout is left as it is: 64 ms of work, over 3 s at least. More would take the time of more entries for the
/// last parts of a percent of height.
const MOST_SLICES: u32 = 64;
/// A layout that is lower by less than 1/256 is not worth a change, as the plan starts anew with it.
const WORTHWHILE_SHARE: u64 = 256;

impl Draft {
    /// A layout by the portfolio, and a little better than that; of no height where nothing has a place. `None` if there is none.
    pub(super) fn new(envelope: &Envelope) -> Option<Draft> {
        let buffers = envelope.buffers();
        let start = Instant::now();
        let mut solver = Box::new(Solver::new(&buffers).ok()?);
        solver.run_portfolio();
        solver.improve(0, &mut || start.elapsed() >= FIRST_SLICE);
        let layout = solver.layout();
        let holds = check(&buffers, &layout).is_ok();
        let bound = solver.bound();
        let solver = (layout.height > bound).then_some(solver);
        let positions = buffers.iter().filter(|buffer| buffer.occupies()).count() as u64;
        holds.then(|| Draft { buffers, layout, positions, bound, solver, slices: MOST_SLICES, paused: Instant::now() })
    }

    /// Works on the layout for a moment, now and then. Returns whether it has become lower, and by enough.
    pub(super) fn improve(&mut self) -> bool {
        let Some(solver) = &mut self.solver else { return false };
        let start = Instant::now();
        if start - self.paused < BETWEEN_SLICES {
            return false;
        }
        let is_best = solver.improve(0, &mut || start.elapsed() >= LATER_SLICE);
        self.slices -= 1;
        self.paused = Instant::now();
        self.bound = solver.bound();
        if !is_best && self.slices > 0 {
            return false;
        }
        let layout = solver.layout();
        self.solver = None;
        let is_worth = layout.height + layout.height / WORTHWHILE_SHARE <= self.layout.height;
        if !is_worth || check(&self.buffers, &layout).is_err() {
            return false;
        }
        self.layout = layout;
        true
    }

    /// Whether a lower layout may be found.
    pub(super) fn is_open(&self) -> bool {
        self.solver.is_some()
    }
}
