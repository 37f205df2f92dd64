//! What the entries of a scope need, and the addresses that serve them.
//!
//! The way of an entry: a [`Log`] records sizes and lifetimes. Two logs of one order give an [`Envelope`], which needs as much as
//! any of them at each position; [`Growth`] adds room for sizes that grow by a step. The envelope's buffers are laid out
//! (`crate::layout`), and a [`Cursor`] serves the layout, position by position. `reuse` tells the cursor which position waits
//! for which. An array that is alive when its successor is allocated gets no position: a [`Ring`] serves it. [`Turns`] end
//! the ring's rounds where they waste the least memory.

mod cursor;
mod envelope;
mod growth;
mod log;
mod reuse;
mod ring;
mod turns;

pub use cursor::{Answer, Cursor, Deviation, Evicted, Served};
pub use envelope::{Envelope, Scratch};
pub use growth::Growth;
pub use log::Log;
pub use ring::Ring;
pub use turns::Turns;
