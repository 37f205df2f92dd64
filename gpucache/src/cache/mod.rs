//! One scope's cache on one thread, and what finds it. Serves bytes on a stream under a key; types are `array`'s affair.
//!
//! An allocation: [`Block::planned`] → the innermost scope's cache ([`current`]) → the cursor of its plan ([`planner`]); what that
//! does not expect: [`Block::allocate`] → its keyed lists ([`lists`]) → the device's range ([`supply`]). A drop: [`Block`]
//! → its home cache, on the owner's side ([`local`]) where the dropping thread is inside the scope, else through everyone's side
//! ([`shared`], [`returns`]). What a graph is to use whenever it is launched is of no scope ([`reservation`]). An entry begins
//! and ends in [`entry`], where plans get their block and give it up. What happens when the device has no memory left stands in
//! [`shortage`]; how a plan's block is taken from a thread that is inside, in [`lease`].

pub(crate) mod current;
pub(crate) mod registry;

mod access;
mod block;
mod deferred;
mod entry;
mod key;
mod lists;
mod local;
mod owner;
mod policy;
#[cfg(any(feature = "cuda", test))]
mod reservation;
mod resume;
mod supply;
#[cfg(test)]
mod tests;
mod upkeep;

pub(crate) use block::Block;
pub(crate) use owner::Cache;
pub use policy::Recycle;
#[cfg(feature = "cuda")]
pub(crate) use reservation::Reservation;
