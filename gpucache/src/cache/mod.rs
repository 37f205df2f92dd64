//! One scope's cache on one thread, and what finds it. Serves bytes on a stream under a key; types are `array`'s affair.
//!
//! An allocation: [`Block::planned`] → the innermost scope's cache ([`current`]) → the cursor of its plan ([`planner`]); what that
//! does not expect: [`Block::allocate`] → its keyed lists ([`lists`]) → the device's range ([`supply`]). A drop: [`Block`]
//! → its home cache, on the owner's side ([`local`]) where the dropping thread is inside the scope, else through everyone's side
//! ([`shared`], [`returns`]). What a graph is to use whenever it is launched is of no scope ([`reservation`]). An entry begins
//! and ends in [`entry`], where plans get their block and give it up. What happens when the device has no memory left stands in
//! [`shortage`]; how a plan's block is taken from a thread that is inside, in [`lease`].

pub(crate) mod current;
pub(crate) mod demand;
pub(crate) mod registry;

mod access;

mod barrier;
mod block;
mod counter;
mod deferred;
mod entry;
mod generations;
mod hold;
mod keep;
mod lease;
mod lists;
mod local;
#[cfg(all(loom, test))]
mod model;
mod moment;
mod owner;
mod plan_stats;
mod planner;
mod policy;
mod reclaim;
mod record;
#[cfg(any(feature = "cuda", test))]
mod reservation;
mod resume;
mod returns;
mod shared;
mod shortage;
mod stats;
mod supply;
#[cfg(test)]
mod tests;
mod transit;
mod upkeep;
mod uses;

pub(crate) use block::Block;
pub use keep::keep_idle;
pub(crate) use owner::Cache;
pub use plan_stats::{Deviations, PlanStats};
pub use policy::Recycle;
pub use reclaim::trim;
#[cfg(feature = "cuda")]
pub(crate) use record::View;
#[cfg(feature = "cuda")]
pub(crate) use reservation::Reservation;
pub use stats::ScopeStats;
