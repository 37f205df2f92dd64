//! Who may touch a cache, and what all may know of it: ownership by one thread at a time, without a lock.
//!
//! A cache has two sides. The owner's is plain data behind a [`Hold`](hold::Hold): one thread has it from its outermost entry of the scope
//! to the exit of it, others for a moment while nobody is inside. Everyone's side is [`Shared`]: an invalidation is a number that
//! is raised ([`Generations`](generations::Generations)), a block that comes back goes on a stack ([`Returns`](returns::Returns)),
//! and statistics are views of numbers with one writer ([`Counters`]). Who leaves something there tells the
//! owner by [`Hold::attend`](hold::Hold::attend); the owner looks when it leaves, at the latest.
//!
//! | file | its one matter |
//! |---|---|
//! | `hold` | who owns the contents of a cache, and the duties of whoever leaves |
//! | `shared` | everyone's side, as one |
//! | `generations` | which blocks an invalidation made old |
//! | `returns` | blocks that other threads dropped |
//! | `counters` | what is counted, each number by its name: [`Counter`] |
//! | `scope_stats`, `served`, `plan_stats` | views of it, which users read |
//! | `devices` | which devices a cache has served
//! | `facts` | what keeps a scope from being planned, for its diagnosis |
//! | `growth` | how many arrays are alive, over all entries |
//! | `interleavings` | all of this, and the lease of an arena, under loom |

pub(crate) mod hold;

mod counters;
mod devices;
mod facts;
mod generations;
mod growth;
#[cfg(all(loom, test))]
mod interleavings;
mod plan_stats;
mod returns;
mod scope_stats;
mod served;
mod shared;

pub use counters::Visit;
pub(crate) use counters::{Counter, Counters};
pub use facts::{Fact, FactCount, Facts, Sample};
pub(crate) use growth::{Alive, FIRST_SPACING};
pub use plan_stats::{Deviations, PlanStats, Unplanned};
pub use scope_stats::ScopeStats;
pub use served::{Amount, InUse, Served};
pub(crate) use shared::Shared;
