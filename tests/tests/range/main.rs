//! The range below the caches, and numbers at the ends of what it can count. The tests take turns, since they invalidate all scopes.
//!
//! | file | content |
//! |---|---|
//! | `blocks` | blocks of all sizes, which scopes, threads and streams share |
//! | `behind` | a device that is behind its host |
//! | `inside` | scopes inside the steps of other scopes |
//! | `extremes` | the largest sizes, limits and counts |
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

mod behind;
mod blocks;
mod extremes;
mod inside;
