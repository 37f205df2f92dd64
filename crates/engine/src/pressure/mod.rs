//! Finds memory for a request when the device is short. It knows who can give memory back, in which order to ask them, and how much
//! they will need again. This folder knows no caches. Each owner of memory is a [`Holder`](reclaim::Holder), and registers itself
//! when it has some.
//!
//! If the device or a limit refuses a request, [`serve::insist`] takes the reclaim steps until one of them serves the request. They are
//! grouped here; [`steps`] has all ten:
//!
//! 1. Free pages move.
//! 2. Holders give idle memory back, one after the other ([`reclaim::by_age`]).
//! 3. The stream, and then the thread, waits for other work.
//! 4. Arrays move to host memory ([`Memory::on_spill`](crate::device::Memory::on_spill)).
//! 5. Graphs of captured scopes lose their executables.
//! 6. Arenas of threads that are inside their scopes are taken away, if nothing in them is alive ([`reclaim::revoke`]).
//! 7. The request waits for other threads.
//! 8. The program gives something up ([`handlers`]).
//!
//! All steps are arms of one `match` in `serve`. A returned failure is true: if memory was on its way meanwhile ([`transit`]), the
//! request is made again.
//!
//! | file | content |
//! |---|---|
//! | `steps` | the reclaim steps, and how often each served a request |
//! | `request` | what a request asks for, and how; whether memory was freed since its last attempt; the error if no step served it |
//! | `serve` | the action of each step; the step that drops graphs (`serve/graphs`); the wait for long work after all steps (`serve/outlast`) |
//! | `calls` | calls of other libraries that take memory of the device |
//! | `reclaim` | the holders of memory, by age, and how they give idle memory back |
//! | `handlers` | the handlers of the program: [`Memory::on_pressure`](crate::device::Memory::on_pressure) |
//! | `limits` | how much memory may be reserved, how much may stay idle, how long a request waits |
//! | `demand` | how much memory of each device the scopes are likely to need again |
//! | `lease` | how a thread takes an arena from another thread, which uses it without a lock |
//! | `barrier` | a memory barrier that costs one side nothing |
//! | `transit` | memory that is on its way: arenas between the range and a holder, and arrays that leave for the host |

pub(crate) mod demand;
pub(crate) mod handlers;
pub(crate) mod lease;
pub(crate) mod limits;
pub(crate) mod reclaim;
pub(crate) mod request;
pub(crate) mod serve;
pub(crate) mod transit;

mod barrier;
#[cfg(feature = "cuda")]
mod calls;
mod steps;

pub use handlers::{Pressure, PressureHandler};
pub use steps::{ReclaimStats, ReclaimStep, StepUse};
#[doc(hidden)]
pub use transit::Transit;
