//! One scope's cache on one thread, and what finds it. Serves bytes on a stream under a key; types are `array`'s affair.
//!
//! An allocation that a plan expects is served by [`current::serve_planned`], straight from the innermost scope's planner. Any
//! other one: [`Block::allocate`] → that scope's [`Owner`](owner) → what the plan has a place for off the order, or its keyed lists
//! ([`local`], [`lists`]) → the device's range ([`supply`]). A drop: [`Block`] → its home cache, on the owner's side where the dropping
//! thread is inside the scope, else by way of a return stack. What a graph is to use whenever it is launched is of no scope
//! ([`reservation`]). An entry begins and ends in [`entry`], where plans get their arena and give it up.
//!
//! | file | its one matter |
//! |---|---|
//! | `current` | which cache serves this thread now, and the fast ways to it |
//! | `block`, `access` | memory in use, its drop, and what can be done with its bytes |
//! | `owner` | a cache, and the proof that this thread owns it: hits, supplies, drops |
//! | `entry` | the beginning and the end of an entry |
//! | `upkeep` | invalidation, the end of a thread or a name, giving memory back |
//! | `brief` | a cache that is held for a moment |
//! | `deferred` | blocks that came back while other streams may still use them |
//! | `local` | the owner's side, as one |
//! | `lists` | idle blocks by key: dtype, shape, and the stream, which implies the device |
//! | `policy` | what a scope keeps: pure |
//! | `supply` | the steps of a supply |
//! | `traced` | what a trace is told |
//! | `open` | what the open entries of a scope say |
//! | `heard` | what a subscriber of `tracing` is told |
//! | `told` | what whoever asks is told: statistics, whose the cache is, and what is noted for a diagnosis |
//! | `token` | the number by which a thread is known |
//! | `registry` | all scopes by name, and the caches of all threads in each |
//! | `allowance` | the limit of a scope |
//! | `reservation` | memory that stays reserved for a graph |

mod current;
mod registry;

mod access;
mod allowance;
mod block;
mod brief;
mod deferred;
mod entry;
#[cfg(feature = "tracing")]
mod heard;
mod lists;
mod local;
mod open;
mod owner;
mod policy;
#[cfg(any(feature = "cuda", test))]
mod reservation;
mod ring;
mod supply;
#[cfg(test)]
mod tests;
mod token;
mod told;
mod traced;
mod upkeep;

pub use access::Crossing;
pub use block::Block;
pub use current::{Current, Entry};
pub use owner::Cache;
pub use policy::{Recycle, Terms};
pub use registry::NamedCaches;
#[cfg(feature = "cuda")]
pub use reservation::Reservation;
pub use told::ScopeFacts;
