//! Records the allocations and frees of a program: when, in which scope, how they were served, and how much memory each
//! device had reserved.
//!
//! Call [`start`] before the part of the program to record, and [`stop`] after it. To trace a whole run without a change of code,
//! set an environment variable: with `GPUCACHE_TRACE=run.csv`, the process writes the trace when it exits, [as
//! text](Trace::write_csv). It keeps the newest 2²⁰ events of each thread.
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
//! Two examples in the repository read the file. `replay` computes how much memory the run would have needed under another
//! policy or limit. `report` converts the file to the formats of other tools.

pub use gpucache_engine::trace::{Action, ServedBy, Trace, TraceDevice, TraceEvent};

/// Begins a trace. Each thread keeps its newest `capacity` events. An event takes 64 bytes once it is recorded.
///
/// A thread that is inside a scope is traced once it enters or leaves a scope. Arrays without elements have no memory and are left
/// out. If a trace is on already, it is dropped and a new one begins.
///
/// While no trace is on, tracing takes no time. While one is on, a plan serves the same allocations, and each takes some
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
    Trace::start(capacity);
}

/// Ends the trace and returns it. The trace is empty if none was on. Events of other threads during this call may be missing.
///
/// ```
/// use gpucache::trace;
///
/// assert!(trace::stop().events.is_empty());
/// ```
pub fn stop() -> Trace {
    Trace::stop()
}
