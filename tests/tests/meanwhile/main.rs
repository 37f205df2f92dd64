//! Entries whose scopes other threads disturb meanwhile. The tests take turns, since these threads trace, and invalidate all scopes.
//!
//! | file | content |
//! |---|---|
//! | `loops` | entries with loops |
//! | `partly` | entries that are regular in part |
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod loops;
mod partly;
