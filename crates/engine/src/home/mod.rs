//! Who may touch a cache, and what all may know of it: ownership by one thread at a time, without a lock.
//!
//! A cache has two sides. The owner's is plain data behind a [`Hold`](hold::Hold): one thread has it from its outermost entry of the scope
//! to the exit of it, others for a moment while nobody is inside. Everyone's side is [`Shared`]: an invalidation is a number that
//! is raised ([`Generations`](generations::Generations)), a block that comes back goes on a stack ([`Returns`](returns::Returns)),
//! and statistics are readings ([`Counts`]) of numbers with one writer ([`Counters`]). Who leaves something there tells the
//! owner by [`Hold::attend`](hold::Hold::attend); the owner looks when it leaves, at the latest.
//!
//! | file | its one matter |
//! |---|---|
//! | `hold` | who owns the contents of a cache, and the duties of whoever leaves |
//! | `shared` | everyone's side, as one |
//! | `generations` | which blocks an invalidation made old |
//! | `returns` | blocks that other threads dropped |
//! | `counters` | what is counted, each number by its name: [`Counter`] |
//! | `counts` | a reading of all of it, as plain numbers: [`Counts`] |
//! | `deviations` | where an entry went other ways than its plan |
//! | `devices` | which devices a cache has served |
//! | `facts` | what keeps a scope from being planned, for its diagnosis |
//! | `growth` | how many arrays are alive, over all entries |
//! | `interleavings` | all of this, and the lease of an arena, under loom |

pub(crate) mod hold;

mod counters;
mod counts;
mod deviations;
mod devices;
mod facts;
mod generations;
mod growth;
#[cfg(all(loom, test))]
mod interleavings;
mod returns;
mod shared;

pub(crate) use counters::Counters;
pub use counters::{Counter, Visit};
pub use counts::Counts;
pub(crate) use deviations::Deviations;
pub use facts::{Fact, FactCount, Facts, Sample};
pub(crate) use growth::{Alive, FIRST_SPACING};
pub(crate) use shared::Shared;
