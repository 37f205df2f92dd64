//! Records the allocations and frees of a program: when, in which scope, how they were served, and how much memory each
//! device had reserved. [`Trace`] is such a record.
//!
//! | file | content |
//! |---|---|
//! | `event` | the events of a trace |
//! | `writer` | how a thread writes an event: its ring, the numbers of names, and the clock |
//! | `packed`, `ring` | an event as eight words, and the events of a thread |
//! | `session` | the trace that is on |
//! | `merge`, `whole` | the common order of all threads' events, and the allocation that each free ends |
//! | `stack` | the callers of the source lines that allocate |
//! | `csv`, `environment` | the file, and the environment variable that asks for it |

mod csv;
mod environment;
mod event;
mod merge;
mod packed;
mod ring;
mod session;
mod stack;
mod whole;
mod writer;

pub(crate) use environment::{start_from_environment, write_at_exit};
pub use event::{Action, ServedBy, TraceDevice, TraceEvent};
pub use whole::Trace;
pub(crate) use writer::{Allocation, allocated, freed, inside, read_clock_next, reserved, turned};

/// Whether a trace is on.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    session::number() != 0
}
