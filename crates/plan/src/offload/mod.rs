//! Plans which arrays rest on the host, and when they move, so that a program runs on a device that is too small for all of its arrays.
//!
//! These are pure functions over plain data, usable without a device and without the rest of this crate. They need the order of uses
//! in an entry that repeats, so the next use of every array is known. [`Order::schedule`] returns the moves of an entry. After them every array
//! is where it was at the entry's beginning.
//!
//! An order passes through these files. Between two uses an array has a gap (`gaps`), during which it stays or leaves. The choice of gaps
//! is a packing of bytes into the memory that current uses leave (`packing`). It takes the gaps that save the most bytes for the
//! price of their memory (`prices`, `keep`). If work does not hide all copies of this choice, `packing` gives short gaps a higher
//! worth, and [`Order::schedule`] returns the faster result. `early` finds the times of the moves on a simulated machine with
//! a link in each direction (`machine`). `moves` turns these times into a schedule that repeats and always fits. `delay` lets arrays come
//! later where that costs no time. `machine` tells how long an entry takes. `offsets` gives each array a place in memory for as long as it is
//! on the device.
//!
//! If only the device has the current contents of an array, they are written back before the array leaves. This holds even if the next
//! use fills the array, because the program may look at the contents first. Only dead arrays are not written back.
//! The table shows a training step of a GPT (48 layers, AdamW, 2,160 uses, 51 GB at its peak) over a link of 55 GB/s. Seconds are
//! simulated, as multiples of those without a limit. Bytes are all that move in and out, divided by the lower bound.
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
//! For random orders, the next table shows the bytes that move, divided by the optimum or by its lower bound (mean). The bound can be
//! below the optimum if there are write-backs or if sizes differ.
//!
//! | arrays, uses | sizes | reads alone | with writes, deaths and births | against |
//! |---|---|---|---|---|
//! | 8, 20 | equal | 1.00 | 1.01 | the optimum |
//! | 8, 20 | 10 to 210 | 1.02 | 1.03 | the optimum |
//! | 60, 300 | equal | 1.01 | 1.08 | the bound |
//! | 60, 300 | 10 to 210 | 1.04 | 1.10 | the bound |
//! | 300, 2,000 | equal | 1.01 | 1.10 | the bound |
//! | 300, 2,000 | 10 to 210 | 1.02 | 1.09 | the bound |
//!
//! A schedule of the training step takes 3.4 ms. One of 2,000 uses of 300 arrays takes 1 to 14 ms, and one of 65,536 uses of 20,000 arrays 0.4 to
//! 2.5 s (release build, one core of a Xeon).
//!
//! Two ideas did not help. The first keeps a share of the budget free for arrays on their way. The schedule finds memory for them
//! anyway as the arrays of a step come and go. With 2% or more kept free, more bytes move and the step takes longer. The second
//! replaces chains of gaps by the best other chain (weighted interval scheduling). It saved less than 1% of the bytes that move.

mod delay;
mod early;
mod gaps;
mod keep;
mod machine;
mod moves;
mod offsets;
mod packing;
mod prices;
mod types;

#[cfg(test)]
mod tests;

pub use offsets::Offsets;
pub use types::{Access, Link, Move, Order, Schedule, Use, What};

use early::Early;
use gaps::Gaps;
use machine::Reached;
use packing::Packing;
use types::MOST_BYTES;

/// An entry that takes at most this multiple of its work hides its copies.
const HIDDEN: f64 = 1.002;
/// A schedule that moves more bytes is taken only if it takes less than this fraction of the time.
const FASTER: f64 = 0.995;

/// Delayed prefetches are taken if the entry takes at most this multiple of its time without delays.
const COSTS_NO_TIME: f64 = 1.0005;

impl Order {
    /// The moves of an entry of this order within a budget of bytes, in steady state; `None` if the arrays that are held at once do not fit,
    /// or if the sum of the bytes overflows.
    ///
    /// An array that dies is evicted after its last use, without a write-back: the caller guarantees that it is dead. An array
    /// that a use fills needs memory there, but no move. An array that rests on the host is prefetched for each use that needs its contents.
    pub fn schedule(&self, budget: u64, link: Link) -> Option<Schedule> {
        let budget = self.has_sums().then_some(budget.min(MOST_BYTES))?;
        let gaps = Gaps::of(self);
        let mut packing = Packing::new(self, &gaps, budget)?;
        let fewest = timed(self, &gaps, &packing, (budget, link));
        if fewest.seconds <= self.length * HIDDEN {
            return Some(fewest);
        }
        packing.weigh(self, &gaps, link);
        let hidden = timed(self, &gaps, &packing, (budget, link));
        Some(if hidden.seconds < fewest.seconds * FASTER { hidden } else { fewest })
    }
}

/// The moves of the arrays that do not stay in this packing.
fn timed(order: &Order, gaps: &Gaps, packing: &Packing, (budget, link): (u64, Link)) -> Schedule {
    let kept = keep::best(packing);
    let mut times = Early::times(order, gaps, &kept, budget, link);
    times.settle(order, gaps, &kept, budget);
    let early = times.schedule(order, gaps, &kept);
    let reached = Reached::of(order, budget, link, &early);
    if !reached.seconds.is_finite() {
        return early;
    }
    times.delay(order, gaps, &kept, (link, &reached));
    let delayed = times.schedule(order, gaps, &kept);
    let seconds = delayed.simulate(order, budget, link);
    match seconds <= reached.seconds * COSTS_NO_TIME {
        true => Schedule { seconds, ..delayed },
        false => Schedule { seconds: reached.seconds, ..early },
    }
}
