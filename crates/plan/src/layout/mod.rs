//! Offsets for buffers with known lifetimes, at the lowest height that can be found (dynamic storage allocation).
//!
//! [`layout`] is fast: it takes 0.2 to 1.5 µs per buffer and pass. A [`Solver`] continues for as long as the caller
//! allows. It stops when the height equals the lower bound, because no lower layout exists then.
//!
//! A problem passes through these files. `problem` compresses time into sections. `solver` decides which job runs next. A pass of
//! `portfolio` walks over the `skyline` and places buffers on its valleys; `index` finds the best buffer that fits. `backward` places
//! buffers by best fit, from the last to die to the first. `restart` repeats skyline passes in orders weighted by earlier failures.
//! `search` (feature `exact`) searches exactly for a layout of at most a target height, for small and tight problems. `aim` chooses
//! the target heights. `extend` places buffers around some that have their places. `check` proves that a layout is valid; `live` has the
//! buffers that are alive, for its sweep over time.

mod aim;
mod backward;
mod check;
mod extend;
mod index;
mod live;
mod portfolio;
mod problem;
mod random;
mod restart;
#[cfg(feature = "exact")]
mod search;
mod skyline;
mod solver;
mod sort;
mod types;

pub use check::{check, lower_bound};
pub(crate) use live::Live;
pub use solver::Solver;
pub use types::{Buffer, Layout, LayoutError, TooLarge};

/// Lays the buffers out with the fast portfolio. Stops early if the layout meets the lower bound.
///
/// ```
/// use gpucache_plan::{Buffer, check, layout};
/// let buffers = [Buffer { lower: 0, upper: 2, size: 3 }, Buffer { lower: 1, upper: 3, size: 4 }];
/// let found = layout(&buffers)?;
/// assert_eq!(found.height, 7);
/// assert_eq!(check(&buffers, &found), Ok(()));
/// # Ok::<(), gpucache_plan::TooLarge>(())
/// ```
///
/// # Errors
/// The sizes sum to more than 2^62.
pub fn layout(buffers: &[Buffer]) -> Result<Layout, TooLarge> {
    let mut solver = Solver::new(buffers)?;
    solver.run_portfolio();
    Ok(solver.layout())
}
