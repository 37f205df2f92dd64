//! A layout of an envelope.

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
}

/// The longest time for a layout, unless the portfolio takes longer. The entry in which a plan is made takes this much longer.
const LONGEST: Duration = Duration::from_millis(10);

impl Draft {
    /// A layout by the portfolio, improved a little. Its height is 0 if nothing has a place. `None` if there is no valid layout.
    pub(super) fn new(envelope: &Envelope) -> Option<Draft> {
        let buffers = envelope.buffers();
        let start = Instant::now();
        let mut solver = Solver::new(&buffers).ok()?;
        solver.run_portfolio();
        solver.improve(0, &mut || start.elapsed() >= LONGEST);
        let (layout, bound) = (solver.layout(), solver.bound());
        check(&buffers, &layout).ok()?;
        let positions = Draft::positions_of(&buffers);
        Some(Draft { buffers, layout, positions, bound })
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
        Some(Draft { buffers, layout, positions, bound })
    }

    fn positions_of(buffers: &[Buffer]) -> u64 {
        buffers.iter().filter(|buffer| buffer.occupies()).count() as u64
    }
}
