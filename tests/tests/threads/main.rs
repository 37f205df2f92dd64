//! Threads, and arrays that they pass to each other.
//!
//! | file | content |
//! |---|---|
//! | `adoption` | threads that come and go |
//! | `invalidated_meanwhile` | invalidations while a plan gets a block |
//! | `pools` | thread pools |
//! | `releases` | arrays that other threads drop while a thread releases others |
//! | `revocation_storm` | threads that take blocks away from each other |
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod adoption;
mod invalidated_meanwhile;
mod pools;
mod releases;
mod revocation_storm;
