//! One scope's cache on one thread, and what finds it. Serves bytes on a stream under a key; types are `array`'s affair.
//!
//! An allocation: [`Block::allocate`] → the innermost scope's cache ([`current`]) → its keyed lists ([`lists`]) → the
//! device. A drop: [`Block`] → its home cache, on the owner's side ([`local`]) where the dropping thread is inside the
//! scope, else through everyone's side ([`shared`], [`returns`]).

pub(crate) mod current;
pub(crate) mod registry;

mod access;
mod block;
mod lists;
mod local;
mod owner;
mod returns;
mod shared;
mod stats;

pub(crate) use block::Block;
#[cfg(feature = "cuda")]
pub(crate) use block::View;
pub use stats::ScopeStats;
