//! Dynamic storage allocation: offsets for buffers with known lifetimes, at the lowest height that can be found.
//!
//! Pure functions over plain data, usable without a device and without the rest of this crate. [`layout`] is fast: 0.2 to
//! 1.5 us a buffer and pass. [`improve`] and [`Solver`] go on from there for as long as they may, and stop where the
//! lower bound proves that nothing lower is possible.
//!
//! Time is compressed to its maximal cliques (`problem`). A pass walks the skyline and places the best buffer that fits
//! wholly on its lowest lines (`skyline`, over the candidates in `index`), in several orders (`portfolio`), one goes backwards in
//! time by best fit (`backward`), then come orders
//! weighted by what failed before (`restart`); small tight problems are searched exactly at a fixed target (`search`),
//! whose schedule `aim` decides. `check` proves a layout.
//!
//! Scopes plan with it: the `log`s of two entries of the same order give an `envelope`, with room for what grows (`growth`), its
//! `draft` a layout, and a `cursor` serves that, guarded by first reusers (`reuse`). What is alive when its
//! successor is born is served by a `ring`, whose `turns` keep it small.

mod aim;
mod backward;
mod bound;
mod check;
mod cursor;
mod draft;
mod envelope;
mod growth;
mod index;
mod log;
mod portfolio;
mod problem;
mod random;
mod restart;
mod reuse;
mod ring;
mod search;
mod skyline;
mod solver;
mod sort;
mod turns;
mod types;

pub use bound::lower_bound;
pub use check::check;
pub(crate) use cursor::{Answer, Cursor, Deviation, Evicted, Served};
pub(crate) use draft::Draft;
pub(crate) use envelope::{Envelope, Scratch};
pub(crate) use growth::Growth;
pub(crate) use log::Log;
pub(crate) use ring::Ring;
pub use solver::Solver;
pub(crate) use turns::Turns;
pub use types::{Buffer, Layout, LayoutError, TooLarge};

/// Lays the buffers out with the fast portfolio alone; stops early where it meets the lower bound.
///
/// ```
/// use gpucache::plan::{Buffer, check, layout};
/// let buffers = [Buffer { lower: 0, upper: 2, size: 3 }, Buffer { lower: 1, upper: 3, size: 4 }];
/// let found = layout(&buffers)?;
/// assert_eq!(found.height, 7);
/// assert_eq!(check(&buffers, &found), Ok(()));
/// # Ok::<(), gpucache::plan::TooLarge>(())
/// ```
///
/// # Errors
/// The sizes sum to more than 2^62.
pub fn layout(buffers: &[Buffer]) -> Result<Layout, TooLarge> {
    let mut solver = Solver::new(buffers)?;
    solver.run_portfolio();
    Ok(solver.layout())
}

/// Works for `budget` on a layout at most as high as `layout` (which is left aside if it does not hold); stops early at
/// `target`, or where nothing lower is possible.
///
/// Each call starts anew; to work in slices, keep a [`Solver`].
///
/// # Errors
/// The sizes sum to more than 2^62.
///
/// ```
/// use gpucache::plan::{Buffer, Layout, improve};
/// let buffers = [Buffer { lower: 0, upper: 2, size: 3 }, Buffer { lower: 1, upper: 3, size: 4 }];
/// let stacked = Layout { offsets: vec![4, 0], height: 7 };
/// let found = improve(&buffers, &stacked, 0, std::time::Duration::from_millis(10))?;
/// assert_eq!(found.height, 7); // nothing lower is possible
/// # Ok::<(), gpucache::plan::TooLarge>(())
/// ```
pub fn improve(
    buffers: &[Buffer],
    layout: &Layout,
    target: u64,
    budget: std::time::Duration,
) -> Result<Layout, TooLarge> {
    let start = std::time::Instant::now();
    let mut solver = Solver::new(buffers)?;
    if check(buffers, layout).is_ok() {
        solver.offer(layout);
    }
    solver.improve(target, &mut || start.elapsed() >= budget);
    Ok(solver.layout())
}
