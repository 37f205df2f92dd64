//! When memory may be touched again, and by whom: which streams' work may still use what is free in a range.
//!
//! A stream's work is cut into *epochs*. Memory that a stream frees, or uses, carries the stream's open epoch. An event is
//! recorded only when another stream wants that memory while the epoch is open; it closes the epoch, and stands for all
//! that was freed in it and before. So there is at most one event per stream and epoch, and none while streams keep to
//! their own memory.
//!
//! A stream uses its own memory, what is known to be complete, and what it waited for anyway. Of others it asks how far they
//! are, and leaves alone what they have not done: while the device has memory, no stream comes to wait for another one's
//! work because of memory. Only in a shortage it claims what others have not done with, and comes behind them:
//!
//! | who wants memory of stream S, epoch e            | asks                               | claims in a shortage          |
//! |--------------------------------------------------|------------------------------------|-------------------------------|
//! | S                                                | nothing, and has it                | nothing                       |
//! | anyone, and e is known to be complete            | nothing, and has it                | nothing                       |
//! | a stream that waited for S up to e, or further   | nothing, and has it                | nothing                       |
//! | another one, and e is closed                     | a query of the newest event        | a query, or else a wait       |
//! | another one, and e is open                       | an event, once those before are    | an event that closes e, and a |
//! |                                                  | complete, by whoever works on S    | wait for it                   |
//!
//! What a query says is remembered for e and all epochs before; so is a wait, by the stream that waits. Complete events are
//! recorded again: where a new one is needed, the oldest one is asked first, so that a stream has few more events than
//! it had unfinished epochs at once.
//!
//! A stream whose work is being captured into a graph is not queried and waits for nothing outside. What a captured graph
//! uses is memory of a stream of its own, over the same queue, that is *reserved*: whatever is complete, it is that stream's
//! alone until the graph is gone, and from then on as if it had been freed at that moment. Nothing can be told from here of
//! captures on third streams, which by CUDA's global capture mode forbid queries to all threads: capture in the
//! thread-local or the relaxed mode.
//!
//! Work of which nobody tells is no stream's, and is met before pages go: see `unknown`.

mod epochs;
mod slot;
mod streams;
mod tag;
mod unknown;

#[cfg(test)]
mod tests;

pub(crate) use epochs::Epoch;
#[cfg(test)]
pub(crate) use streams::Member;
pub(crate) use streams::Streams;
pub(crate) use tag::Tag;
pub(crate) use unknown::{Due, FreeMoment, Unknown};
