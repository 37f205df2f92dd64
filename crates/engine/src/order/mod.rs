//! Decides when freed memory may be used again and by which stream: work of other streams may still use it.
//!
//! A stream's work is divided into *epochs*. Memory that a stream frees or uses carries the stream's open epoch, in a *tag*. An event is
//! recorded only when another stream wants that memory while the epoch is open. The event closes the epoch, and stands for all memory that
//! was freed in it and before. So there is at most one event for each epoch of a stream, and none while streams use only their own memory.
//!
//! A request takes this way: the range asks `Streams::may_use`, and then `may_use_now`, for the tag of a free stretch. A stream may use its
//! own memory at once. It may also use memory whose work is known to be complete, and memory of a stream for which it waited anyway. For
//! other memory, `may_use_now` asks the other stream how far it is, and the request leaves the memory alone if its work is not done. So
//! while the device has memory, no stream waits for another stream's work because of memory. Only if the device runs short does a request
//! `claim` unfinished memory: its stream then waits for the work of the other one.
//!
//! | which stream wants memory of stream S, epoch e | asks                                            | claims in a shortage              |
//! |------------------------------------------------|-------------------------------------------------|-----------------------------------|
//! | S                                              | nothing; S may use it                           | nothing                           |
//! | any, and e is known to be complete             | nothing; it may use the memory                  | nothing                           |
//! | one that waited for S up to e, or further      | nothing; it may use the memory                  | nothing                           |
//! | another one, and e is closed                   | a query of the newest event                     | a query, or else a wait           |
//! | another one, and e is open                     | the thread that works on S records an event,    | an event that closes e, and a     |
//! |                                                | once earlier events are complete                | wait for it                       |
//!
//! The answer of a query is remembered for e and all epochs before it. The waiting stream remembers a wait. Complete events are recorded
//! again: before a new event is made, the oldest one is queried. So a stream has few more events than it had unfinished epochs at one time.
//!
//! A stream whose work is being captured into a graph is not queried and waits for nothing outside the graph. The memory of a captured
//! graph belongs to a stream of its own, over the same queue, and is *reserved*. Only that stream may use it until the graph is dropped,
//! even if all its work is complete. From then on it counts as freed at that moment. This crate cannot see captures on streams that are not
//! its own. In CUDA's global capture mode they forbid queries to all threads, so capture in the thread-local or the relaxed mode.
//!
//! Work on unknown streams belongs to no stream here. It is checked before pages are unmapped: see `unknown`.

mod claims;
mod epochs;
mod slot;
mod streams;
mod tag;
mod unknown;

#[cfg(test)]
mod tests;

pub(crate) use epochs::Epoch;
pub(crate) use streams::Streams;
pub(crate) use tag::Tag;
pub(crate) use unknown::{Due, FreeMoment, Unknown};
