//! Placement.

mod early;
mod gaps;
mod keep;
mod lru;
mod machine;
mod moves;
mod packing;
mod prices;
mod simulate;
mod types;

#[cfg(test)]
mod tests;

pub(crate) use lru::Lru;
pub(crate) use simulate::simulate;
pub(crate) use types::{Access, Link, Move, Order, Schedule, Use, What};

use early::Early;
use gaps::Gaps;
use keep::Keep;
use packing::Packing;

/// The moves.
pub(crate) fn schedule(order: &Order, budget: u64, link: Link) -> Option<Schedule> {
    let gaps = Gaps::of(order);
    let t0 = std::time::Instant::now();
    let packing = Packing::new(order, &gaps, budget)?;
    let t1 = std::time::Instant::now();
    let kept = Keep::best(&packing).kept;
    let t2 = std::time::Instant::now();
    let mut times = Early::times(order, &gaps, &kept, budget, link);
    let t3 = std::time::Instant::now();
    times.settle(order, &gaps, &kept, budget);
    let mut schedule = times.schedule(order, &gaps, &kept);
    let t4 = std::time::Instant::now();
    schedule.seconds = simulate(order, budget, link, &schedule);
    if std::env::var("TT").is_ok() { println!("{:?} {:?} {:?} {:?} {:?}", t1-t0, t2-t1,t3-t2,t4-t3,t4.elapsed()); }
    Some(schedule)
}
