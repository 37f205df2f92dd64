//! A layout of an envelope, and its later improvements.

use std::time::{Duration, Instant};

use gpucache_plan::entries::Envelope;
use gpucache_plan::{Buffer, Layout, Solver, check, lower_bound};

/// A layout of the buffers that an envelope needs. [`check`] has proved that the layout is valid.
pub(super) struct Draft {
    pub(super) buffers: Vec<Buffer>,
    pub(super) layout: Layout,
    /// The number of buffers that have a place.
    pub(super) positions: u64,
    /// A lower bound: no layout is lower than this.
    pub(super) bound: u64,
    /// `None` once no lower layout is possible, or none was found for long.
    solver: Option<Box<Solver>>,
    slices: u32,
    /// The time when the last slice ended.
    paused: Instant,
}

/// The longest time for the first layout, unless the portfolio takes longer. The entry in which a plan is made takes this much
/// longer. Later slices find the rest of the improvement.
const FIRST_SLICE: Duration = Duration::from_millis(10);
/// The longest time that one later call improves a layout.
const LATER_SLICE: Duration = Duration::from_millis(1);
/// The time between two calls that improve a layout, so that these calls take at most 2% of a program's time.
const BETWEEN_SLICES: Duration = Duration::from_millis(50);
/// The number of slices before a layout stays as it is: 64 ms of work, over at least 3 s. More slices would cost the time of more
/// entries for the last fractions of a percent of height.
const MOST_SLICES: u32 = 64;
/// A layout that is lower by less than 1/256 is not worth a change, since the plan starts anew with it.
const WORTHWHILE_SHARE: u64 = 256;

impl Draft {
    /// A layout by the portfolio, improved a little. Its height is 0 if nothing has a place. `None` if there is no valid layout.
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
        let positions = Draft::positions_of(&buffers);
        holds.then(|| Draft { buffers, layout, positions, bound, solver, slices: MOST_SLICES, paused: Instant::now() })
    }

    /// A layout that has the first `count` places of another one, and is at most so high. The rest is laid out around them.
    pub(super) fn around(envelope: &Envelope, other: &Draft, count: usize, most: u64) -> Option<Draft> {
        let buffers = envelope.buffers();
        let are_same = |(one, other): (&Buffer, &Buffer)| one.size == other.size;
        if buffers.len() < count || !buffers.iter().zip(&other.buffers).take(count).all(are_same) {
            return None;
        }
        let layout =
            Layout::extend(&buffers, other.layout.offsets.get(..count)?).filter(|layout| layout.height <= most)?;
        let (bound, positions) = (lower_bound(&buffers), Draft::positions_of(&buffers));
        Some(Draft { buffers, layout, positions, bound, solver: None, slices: 0, paused: Instant::now() })
    }

    fn positions_of(buffers: &[Buffer]) -> u64 {
        buffers.iter().filter(|buffer| buffer.occupies()).count() as u64
    }

    /// Works on the layout for a moment, now and then. Returns whether the layout has become sufficiently lower.
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

    /// Keeps the layout as it is, since another one has places in common with it.
    pub(super) fn close(&mut self) {
        self.solver = None;
    }

    /// Whether a lower layout may still be found.
    pub(super) fn is_open(&self) -> bool {
        self.solver.is_some()
    }
}
