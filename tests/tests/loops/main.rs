//! Loops inside an entry, which are planned like entries.
//!
//! | file | content |
//! |---|---|
//! | `programs` | random programs with loops, which are interrupted |
//! | `one_entry` | one entry around a recorded run |
//! | `answers` | a language model that answers prompts in one entry |
//! | `cycles` | iterations that repeat no order |
//! | `endless` | endless entries whose work changes |
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod cycles;
mod endless;
mod one_entry;
mod programs;
mod sweeps;
