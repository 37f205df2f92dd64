//! What is done where memory is short, or might be: who can give some back, how much is likely to be needed again, and in which
//! order it is asked for. Knows no cache: whoever holds memory is a [`Holder`](reclaim::Holder), registered when it has some.
//!
//! A request that the device refuses, or that its limit does not allow, comes to [`climb::insist`] and climbs the ladder
//! ([`ladder`]) until it is served: pages that nothing lies in move, holders give idle memory back one by one
//! ([`reclaim::by_age`]), streams and the thread wait, and then the arenas of threads that are inside their scopes go, if
//! nothing in them is alive ([`reclaim::revoke`]). A failure that is returned is a true one: what was on its way meanwhile
//! ([`transit`]) has the request made again.
//!
//! | file | its one matter |
//! |---|---|
//! | `ladder` | the rungs, as data: [`Rung`] |
//! | `ask` | what is asked for, and how |
//! | `climb` | what is done on each, for a request that ran out of memory |
//! | `climbs`, `tally` | what came of it, counted: [`climbs()`] |
//! | `patience` | how long is waited for other threads: [`patience()`] |
//! | `handlers` | what the program gives up: [`on_pressure`] |
//! | `of_memory` | limits and reclaim of a memory that is no device of the program's |
//! | `retry` | a call of somebody else's that ran out of memory |
//! | `survey` | what is told of a request that nothing served |
//! | `age` | which scope was entered least recently |
//! | `reclaim` | who holds memory, and how idle memory is had from all of them; [`trim`] |
//! | `spill` | who has arrays that may leave for the host |
//! | `demand` | how much of each device is likely to be needed again |
//! | `limits` | how much may be held, and how much may stay idle: [`limit`], [`limit_soft`], [`limit_process`], [`limit_idle`] |
//! | `lease` | how an arena is taken from a thread that is inside, without a lock on its side |
//! | `barrier` | a barrier that costs one side nothing |
//! | `transit` | arenas that are found neither with the range nor with a holder |

pub(crate) mod age;
pub(crate) mod ask;
pub(crate) mod climb;
pub(crate) mod demand;
pub(crate) mod lease;
pub mod limits;
pub(crate) mod reclaim;
pub mod spill;
pub(crate) mod survey;
pub(crate) mod transit;

mod barrier;
mod climbs;
pub(crate) mod handlers;
mod ladder;
mod of_memory;
mod patience;
#[cfg(feature = "foreign")]
mod retry;
mod tally;

pub use climbs::{Climbs, RungUse};
pub use demand::Told;
pub use handlers::{Need, PressureHandler, on_pressure, without_handlers};
pub use ladder::{Cost, Rung};
pub use limits::{limit, limit_idle, limit_process, limit_soft, share_of};
pub use of_memory::MemoryPressure;
pub use patience::patience;
pub use reclaim::trim;
#[cfg(feature = "foreign")]
pub use retry::retry_call;
pub use spill::on_spill;
pub use tally::climbs;
