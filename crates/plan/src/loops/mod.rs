//! Finds loops inside an entry: stretches of allocations that repeat, so that each repetition can be planned like an entry.
//!
//! A [`Search`] hears of each allocation and drop. It compares the last few allocations, a *window*, with all windows before
//! (`windows`). If a window came before, its distance is the period of a possible loop, a *candidate*. From then on each allocation is
//! compared with the one a period earlier (`candidate`). A candidate that held for a whole period is a loop, unless its arrays outlive
//! several iterations (`iteration`). An iteration begins where the fewest bytes are alive. Windows of a loop that was found before
//! ([`Known`]) tell at which position of its iteration the program continues.
//!
//! Where iterations repeat no order, their live bytes still rise from a lowest level (`low_water`) and fall back to it (`cycles`).
//!
//! Sizes may change from one iteration to the next, since a batch or a text may be longer. The order has to stay: which arrays are
//! dropped between two allocations, by the number of allocations since their own. Each allocation takes the same few
//! steps, however long the entry is. A search that finds nothing for long rests most of the time.

mod candidate;
mod cycles;
mod iteration;
mod low_water;
mod search;
#[cfg(test)]
mod tests;
mod windows;

pub use cycles::Cycle;
pub use low_water::LowWater;
pub use search::{Found, Search};
pub use windows::Known;
