//! Random programs, compared with a model.
//!
//! | file | content |
//! |---|---|
//! | `model` | operations on one thread, after each of which all numbers are compared |
//! | `threads` | operations on several threads |
//! | `programs` | entries that mostly repeat, on devices that fail |
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod model;
mod programs;
mod threads;
