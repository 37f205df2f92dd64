//! Captured scopes on streams of the host. The tests take turns, since all streams of the host share one memory.
//!
//! | file | content |
//! |---|---|
//! | `runs` | which runs launch a graph, on one or several streams |
//! | `attack` | misuse by safe code |
//! | `keys` | many keys |
//! | `faults` | calls of the device that fail |
//! | `programs` | random programs, compared with a model |
#![allow(clippy::unwrap_used)]

mod attack;
mod faults;
mod keys;
mod programs;
mod runs;
