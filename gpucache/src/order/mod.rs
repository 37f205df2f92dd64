//! When memory may be touched again, and by whom: which streams' work may still use what is free in a range.
//!
//! A stream's work is cut into *epochs*. Memory that a stream frees, or uses, carries the stream's open epoch. An event is
//! recorded only when another stream wants that memory while the epoch is open; it closes the epoch, and stands for all
//! that was freed in it and before. So there is at most one event per stream and epoch, and none while streams keep to
//! their own memory.
//!
//! | who claims memory of stream S, epoch e           | what is called                                              |
//! |--------------------------------------------------|-------------------------------------------------------------|
//! | S                                                | nothing                                                     |
//! | anyone, and e is known to be complete            | nothing                                                     |
//! | a stream that waited for S up to e, or further   | nothing                                                     |
//! | another one, and e is closed                     | a query of e's event; if it is not complete, a wait for it  |
//! | another one, and e is open                       | an event that closes e, and a wait for it                   |
//!
//! What a query says is remembered for e and all epochs before; so is a wait, by the stream that waits. Complete events are
//! recorded again: where a new one is needed, the oldest one is asked first, so that a stream has few more events than
//! it had unfinished epochs at once.
//!
//! A stream whose work is being captured into a graph is not queried and waits for nothing outside: it is refused memory
//! of others that it is not behind already. To capture a step, run it once before, on the stream that is captured.
//! Nothing can be told from here of captures on third streams, which by CUDA's global capture mode forbid queries to all
//! threads: capture in the thread-local or the relaxed mode.

mod epochs;
mod slot;
mod streams;
mod tag;

#[cfg(test)]
mod tests;

pub(crate) use epochs::Epoch;
pub(crate) use streams::Streams;
pub(crate) use tag::Tag;
