//! Who may touch a cache, and what all may know of it: ownership by one thread at a time, without a lock.
//!
//! A cache has two sides. The owner's is plain data behind a [`Hold`](hold::Hold): one thread has it from its outermost entry of the scope
//! to the exit of it, others for a moment while nobody is inside. Everyone's side is [`Shared`]: an invalidation is a number that
//! is raised ([`Generations`](generations::Generations)), a block that comes back goes on a stack ([`Returns`](returns::Returns)),
//! and statistics are counters with one writer ([`Counters`](stats::Counters)). Who leaves something there tells the
//! owner by [`Hold::attend`](hold::Hold::attend); the owner looks when it leaves, at the latest.
//!
//! | file | its one matter |
//! |---|---|
//! | `hold` | who owns the contents of a cache, and the duties of whoever leaves |
//! | `shared` | everyone's side, as one |
//! | `generations` | which blocks an invalidation made old |
//! | `returns` | blocks that other threads dropped |
//! | `counter` | a number with one writer |
//! | `stats` | what is counted |
//! | `foreign` | what is counted of memory that other crates allocate |
//! | `scope_stats`, `served`, `plan_stats`, `unplanned` | what users read of it |
//! | `devices` | which devices a cache has served
//! | `facts` | what keeps a scope from being planned, for its diagnosis |
//! | `growth` | how many arrays are alive, over all entries |
//! | `interleavings` | all of this, and the lease of an arena, under loom |

pub(crate) mod hold;

mod counter;
mod devices;
mod facts;
#[cfg(feature = "foreign")]
mod foreign;
mod generations;
mod growth;
#[cfg(all(loom, test))]
mod interleavings;
mod plan_stats;
mod returns;
mod scope_stats;
mod served;
mod shared;
mod stats;
mod unplanned;

pub use facts::{Fact, FactCount, Facts, Sample};

#[cfg(feature = "foreign")]
pub use foreign::ForeignCounters;
pub use growth::Growth;
pub(crate) use growth::{Alive, FIRST_SPACING};
pub(crate) use plan_stats::PlanCounters;
pub use plan_stats::{Deviations, PlanStats};
pub use scope_stats::ScopeStats;
pub use served::{Amount, InUse, Served};
pub(crate) use shared::Shared;
pub use stats::Visit;
pub use unplanned::Unplanned;
