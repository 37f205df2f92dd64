//! Plans, and entries that deviate from them: what is planned, in how much memory, and what is handed out otherwise.
//!
//! | file | content |
//! |---|---|
//! | `planned` | orders that alternate, sizes that vary, scopes that never settle |
//! | `deviations` | entries that deviate, in every way at every position |
//! | `several_orders` | entries of several orders, known by their first allocation |
//! | `branches` | entries that begin alike and part later |
//! | `recorded` | the memory for recorded programs |
//! | `recurring_moves` | programs that repeat themselves, whose device calls end |
//! | `replaced_state` | optimizers that replace their state |
//! | `first_values` | first values that need more memory than all that follows |
//! | `misses` | misses, compared with the calls of the device |
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

mod branches;
mod deviations;
mod first_values;
mod misses;
mod planned;
mod recorded;
mod recurring_moves;
mod replaced_state;
mod several_orders;
