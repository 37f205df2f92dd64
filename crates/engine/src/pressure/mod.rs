//! What is done where memory is short, or might be: who can give some back, how much is likely to be needed again, and in which
//! order it is asked for. Knows no cache: whoever holds memory is a [`Holder`](reclaim::Holder), registered when it has some.
//!
//! A request that the device refuses, or that its limit does not allow, comes to [`serve::insist`] and takes the reclaim steps
//! ([`steps`]) until one serves it: pages that nothing lies in move, holders give idle memory back one by one
//! ([`reclaim::by_age`]), streams and the thread wait, arrays leave for the host ([`reclaim::on_spill`]), and then the arenas of
//! threads that are inside their scopes go, if nothing in them is alive ([`reclaim::revoke`]). At last the request waits for other threads, and
//! the program gives something up ([`handlers`]). All steps are arms of one `match` in `serve`. A failure that is returned is a true one:
//! what was on its way meanwhile ([`transit`]) has the request made again.
//!
//! | file | its one matter |
//! |---|---|
//! | `steps` | the reclaim steps, and how often each served a request |
//! | `request` | what is asked for, and how; the error of a request that nothing served |
//! | `serve` | what is done in each step |
//! | `seen` | whether memory was freed since the last attempt of a request |
//! | `reclaim` | who holds memory, by age, and how idle memory is had from all of them |
//! | `handlers` | what the program gives up: [`on_pressure`] |
//! | `limits` | how much may be held, how much may stay idle, how long a request waits |
//! | `demand` | how much of each device is likely to be needed again |
//! | `lease` | how an arena is taken from a thread that is inside, without a lock on its side |
//! | `barrier` | a barrier that costs one side nothing |
//! | `transit` | arenas that are found neither with the range nor with a holder |

pub(crate) mod demand;
pub(crate) mod handlers;
pub(crate) mod lease;
pub(crate) mod limits;
pub(crate) mod reclaim;
pub(crate) mod request;
pub(crate) mod serve;
pub(crate) mod transit;

mod barrier;
mod seen;
mod steps;

pub use demand::Told;
pub use handlers::{Pressure, PressureHandler, on_pressure, without_handlers};
pub use reclaim::on_spill;
#[cfg(feature = "foreign")]
pub use serve::retry_call;
pub use steps::{ReclaimStats, ReclaimStep, StepUse};
