//! A trace: what was allocated and freed, when, in which scope, what served it, and what was held from each device meanwhile.
//!
//! [`start`] and [`stop`] are around what is to be seen. Without a change of code the environment has the whole run traced:
//! `GPUCACHE_TRACE=run.csv` has it written when the process exits, [as text](Trace::write_csv), with the newest 2²⁰ events of
//! each thread.
//!
//! ```
//! use gpucache::{cache_scope, prelude::*, trace};
//!
//! trace::start(100_000);
//! for _ in 0..10 {
//!     cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
//! }
//! let trace = trace::stop();
//! let allocated = trace.events.iter().filter(|event| event.action == trace::Action::Allocated);
//! assert_eq!(allocated.map(|event| event.bytes).sum::<u64>(), 10 * 32 * 64 * 4);
//! # Ok::<(), gpucache::Error>(())
//! ```
//!
//! The crate's programs `replay` and `report` read the file: the one finds out what the run would have needed under another policy
//! or limit, the other writes it in the formats of other tools.
//!
//! | file | its one matter |
//! |---|---|
//! | `event` | what is told |
//! | `writer` | a thread's way to its ring: names and the clock |
//! | `packed`, `ring` | an event as eight words, and the events of a thread |
//! | `session` | the trace that is on |
//! | `merge`, `whole` | the order of all threads' events, and which free ends which allocation |
//! | `sites`, `stack` | the source lines that allocate, and their callers |
//! | `csv`, `environment` | the file, and who asks for it from outside |

mod csv;
#[cfg(any(unix, windows))]
mod environment;
mod event;
mod merge;
mod packed;
mod ring;
mod session;
mod sites;
mod stack;
mod whole;
mod writer;

#[cfg(any(unix, windows))]
pub(crate) use environment::{start_from_environment, write_at_exit};
pub use event::{Action, ServedBy, TraceDevice, TraceEvent};
pub use whole::Trace;
pub(crate) use writer::{Allocation, allocated, entered, freed, inside, left, reserved};

/// Begins a trace. A thread that has more than `capacity` events keeps the newest; each takes 64 bytes, once it is there.
///
/// A thread that is inside a scope is traced once it enters or leaves one. Arrays without elements have no memory and are left out.
/// If a trace is on, it is dropped, and another one begins.
///
/// While no trace is on, nothing of this takes time. While one is, a scope's plan serves as before, by a way that takes some
/// nanoseconds more.
///
/// ```
/// use gpucache::{prelude::*, trace};
///
/// trace::start(3);
/// (0..3).try_for_each(|_| Host::new().zeros::<u8>(100).map(drop))?;
/// let trace = trace::stop();
/// assert_eq!((trace.events.len(), trace.lost), (3, 9));
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn start(capacity: usize) {
    session::begin(capacity);
}

/// Ends the trace, and returns what was seen; nothing if none is on. What other threads do meanwhile may or may not be in it.
///
/// ```
/// use gpucache::trace;
///
/// assert!(trace::stop().events.is_empty());
/// ```
pub fn stop() -> Trace {
    session::end().map_or_else(Trace::default, |(session, unwritten)| Trace::of(&session, unwritten))
}

/// Whether a trace is on.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    session::number() != 0
}
