//! Plans the memory of a scope from its recorded entries, and serves each allocation from an address of the plan.
//!
//! An entry passes through these files. A [`Log`] records sizes and lifetimes. Two logs of the same order give an [`Envelope`], which
//! holds the largest size and lifetime of each position. [`Growth`] finds sizes that grow by a step in each entry, for which the
//! envelope gets more room. The envelope's buffers are laid out (`crate::layout`), and a [`Cursor`] serves the positions of the layout
//! in order. `reuse` tells the cursor which position next uses the addresses of which other one. An array that is still alive when its
//! successor is allocated gets no position in the layout: a [`Ring`] serves it. [`Ring::turns`] decides where the ring starts again at its
//! first address, so that it wastes little memory. If only a part of each entry repeats, that part has an envelope (`partly`).

mod cursor;
mod envelope;
mod growth;
mod log;
mod partly;
mod reuse;
mod ring;
mod turns;

pub use cursor::{Answer, Cursor, Deviation, Evicted, Served};
pub use envelope::Envelope;
pub use growth::Growth;
pub use log::Log;
pub use ring::Ring;
