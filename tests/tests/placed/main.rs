//! Placed arrays, which move between the device and the host. The tests take turns, since `placement` changes the default of the process.
//!
//! | file | content |
//! |---|---|
//! | `moves` | contents of arrays that move, and which ones move |
//! | `orders` | random orders that repeat |
//! | `changes` | limits, sizes and other memory that change |
//! | `faults` | failures at every call |
//! | `waits` | statistics of waits and copies |
//! | `placement` | where arrays rest |
//! | `disturbed` | moves that something disturbs |
//! | `attack` | unusual orders and numbers |
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

mod attack;
mod changes;
mod disturbed;
mod faults;
mod moves;
mod orders;
mod placement;
mod waits;
