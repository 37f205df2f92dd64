//! Who may touch a cache, and what all threads may know of it. One thread at a time owns a cache, without a lock.
//!
//! A cache has two sides. The owner's side is plain data behind a [`Hold`](hold::Hold). One thread owns it from its outermost entry
//! of the scope to the exit of that entry. Other threads hold it for a moment while nobody is inside. The other side is [`Shared`],
//! for all threads:
//!
//! - An invalidation raises a number ([`Generations`](generations::Generations)).
//! - A block that another thread drops goes on a stack ([`Returns`](returns::Returns)).
//! - Statistics are readings ([`Counts`]) of numbers that the owner writes ([`Counters`]).
//!
//! A thread that leaves work there tells the owner by [`Hold::attend`](hold::Hold::attend). The owner looks for work when it
//! leaves, at the latest.
//!
//! | file | content |
//! |---|---|
//! | `hold` | who owns the contents of a cache, and the work that is due when the owner leaves |
//! | `shared` | the side for all threads as one struct |
//! | `generations` | which blocks are older than the last invalidation |
//! | `returns` | blocks that other threads dropped |
//! | `counter`, `counters` | the counts, each with a name: [`Counter`] |
//! | `counts` | a reading of all counts, as plain numbers: [`Counts`] |
//! | `deviations` | how an entry deviated from its plan |
//! | `devices` | the devices that a cache has served |
//! | `facts` | the reasons why a scope is not planned, for its diagnosis |
//! | `growth` | how many arrays are alive, over all entries |
//! | `tests` | models of all of this, and of the lease of an arena, for loom |

pub(crate) mod hold;

mod counter;
mod counters;
mod counts;
mod deviations;
mod devices;
mod facts;
mod generations;
mod growth;
mod returns;
mod shared;
#[cfg(all(loom, test))]
mod tests;

pub use counter::Counter;
pub(crate) use counters::Counters;
pub use counters::Visit;
pub use counts::Counts;
pub use deviations::Deviations;
pub use facts::{Fact, FactCount, Facts, Sample};
pub(crate) use growth::FIRST_SPACING;
pub(crate) use shared::Shared;
