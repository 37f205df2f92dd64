//! Placement: which arrays rest on the host, and when they go and come, so that what does not fit a device is trained on it.
//!
//! Pure functions over plain data, usable without a device and without the rest of this crate. The order of uses of an entry that
//! repeats is known, so the next use of everything is. [`schedule`] tells the moves, after which all is where it was at the
//! entry's begin.
//!
//! Between two uses an array has a gap (`gaps`), in which it stays or goes. Which stay is a packing of bytes into the room beside
//! what is held (`packing`): those that save the most bytes for the price of their room (`prices`, `keep`). Where work does not hide
//! all copies of that, bytes are worth more in gaps that are short beside their copies (`packing`), if that is faster. When they move is found on
//! a simulated machine with a link in each direction (`early`, `machine`), made to repeat (`moves`), and timed (`machine`).
//! Contents that only the device has are written back before they go, even where the next use fills the array: the program
//! may look at them first. Only what dies is not.
//!
//! A training step of a GPT (48 layers, AdamW, 2,160 uses, 51 GB at its peak) over a link of 55 GB/s. Seconds are simulated, as
//! multiples of those without a limit; bytes are what moves, in and out, against the lower bound.
//!
//! | optimizer | memory, seconds without a limit | schedule | on demand: lru | on demand: farthest | bytes |
//! |---|---|---|---|---|---|
//! | at the end | 80%, 0.5 s | 1.04 | 1.75 | 1.75 | 1.0002 |
//! | at the end | 80%, 1 s | 1.00 | 1.38 | 1.38 | 1.0002 |
//! | at the end | 80%, 2 s | 1.00 | 1.19 | 1.19 | 1.0002 |
//! | fused into the backward pass | 80%, 0.5 s | 1.00 | 1.83 | 1.76 | 1.0002 |
//! | fused into the backward pass | 80%, 1 s | 1.00 | 1.42 | 1.38 | 1.0002 |
//! | fused into the backward pass | 80%, 2 s | 1.01 | 1.21 | 1.19 | 1.0002 |
//! | at the end | 60%, 1 s | 1.04 | 1.83 | 1.75 | 1.0002 |
//! | fused into the backward pass | 50%, 1 s | 1.00 | 2.04 | 1.93 | 1.0004 |
//!
//! Random orders move more than the optimum, or than its lower bound, by these factors, in the mean. The bound can be
//! below the optimum where there are write-backs and where sizes differ.
//!
//! | arrays, uses | sizes | reads alone | with writes, deaths and births | against |
//! |---|---|---|---|---|
//! | 8, 20 | equal | 1.00 | 1.01 | the optimum |
//! | 8, 20 | 10 to 210 | 1.01 | 1.02 | the optimum |
//! | 60, 300 | equal | 1.01 | 1.08 | the bound |
//! | 60, 300 | 10 to 210 | 1.04 | 1.10 | the bound |
//! | 300, 2,000 | equal | 1.01 | 1.10 | the bound |
//! | 300, 2,000 | 10 to 210 | 1.02 | 1.09 | the bound |
//!
//! A schedule of the training step takes 3.4 ms, one of 2,000 random uses 9 to 15 ms (release build, a core of a
//! Xeon that others used at a load of 7).
//!
//! Tried and left: a share of the budget that is kept free for what is on its way. The schedule finds room for that as the
//! arrays of a step come and go, and with 2% or more kept free more moves and the step takes longer. Lanes of gaps that are replaced by the
//! best other lane (weighted interval scheduling) saved less than 1% of what moves.

mod early;
mod gaps;
mod keep;
mod machine;
mod moves;
mod packing;
mod prices;
mod types;

#[cfg(test)]
mod tests;

pub use machine::simulate;
pub use types::{Access, Link, Move, Order, Schedule, Use, What};

use early::Early;
use gaps::Gaps;
use keep::Keep;
use packing::Packing;
use types::MOST_BYTES;

/// An entry that takes no more than this, as a multiple of its work, hides its copies.
const HIDDEN: f64 = 1.002;
/// What moves more bytes has to take less than this part of the time.
const FASTER: f64 = 0.995;

/// The moves of an entry of this order within a budget of bytes, in steady state; `None` if what is held at once does not fit it, or
/// there is no sum of the bytes.
///
/// An array that dies is evicted where its last use lets it go, without a write-back: the caller sees to it that it is dead. One
/// that is filled by a use needs its room there and no move.
pub fn schedule(order: &Order, budget: u64, link: Link) -> Option<Schedule> {
    let budget = order.has_sums().then_some(budget.min(MOST_BYTES))?;
    let gaps = Gaps::of(order);
    let mut packing = Packing::new(order, &gaps, budget)?;
    let fewest = timed(order, &gaps, &packing, (budget, link));
    if fewest.seconds <= order.length * HIDDEN {
        return Some(fewest);
    }
    packing.weigh(order, &gaps, link);
    let hidden = timed(order, &gaps, &packing, (budget, link));
    Some(if hidden.seconds < fewest.seconds * FASTER { hidden } else { fewest })
}

/// The moves of what does not stay in this packing.
fn timed(order: &Order, gaps: &Gaps, packing: &Packing, (budget, link): (u64, Link)) -> Schedule {
    let kept = Keep::best(packing).kept;
    let mut times = Early::times(order, gaps, &kept, budget, link);
    times.settle(order, gaps, &kept, budget);
    let mut schedule = times.schedule(order, gaps, &kept);
    schedule.seconds = simulate(order, budget, link, &schedule);
    schedule
}
