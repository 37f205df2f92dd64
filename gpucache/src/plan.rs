//! Offsets for buffers with known lifetimes, at the lowest height that can be found.
//!
//! Scopes lay out their plans with this solver. It needs no device. The crate `gpucache-plan` holds it, and can be used without
//! gpucache.

use std::time::{Duration, Instant};

pub use gpucache_plan::{Buffer, Layout, LayoutError, Solver, TooLarge, check, layout, lower_bound};

/// Improves `layout` for the time `budget`. Stops early at the height `target`, or if no lower layout is possible.
///
/// An invalid `layout` is ignored. Each call starts anew; to work in slices, keep a [`Solver`].
///
/// # Errors
/// The sizes sum to more than 2^62.
///
/// ```
/// use gpucache::plan::{Buffer, Layout, improve};
/// let buffers = [Buffer { lower: 0, upper: 2, size: 3 }, Buffer { lower: 1, upper: 3, size: 4 }];
/// let stacked = Layout { offsets: vec![4, 0], height: 7 };
/// let found = improve(&buffers, &stacked, 0, std::time::Duration::from_millis(10))?;
/// assert_eq!(found.height, 7); // no lower layout exists
/// # Ok::<(), gpucache::plan::TooLarge>(())
/// ```
pub fn improve(buffers: &[Buffer], layout: &Layout, target: u64, budget: Duration) -> Result<Layout, TooLarge> {
    let start = Instant::now();
    let mut solver = Solver::new(buffers)?;
    solver.offer(layout);
    solver.improve(target, &mut || start.elapsed() >= budget);
    Ok(solver.layout())
}
