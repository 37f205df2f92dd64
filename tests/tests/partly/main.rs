//! Entries that are regular in part, and orders whose sizes change.
//!
//! | file | content |
//! |---|---|
//! | `figures` | the share that is planned, and the reserved memory |
//! | `disturbed` | entries that deviate, fail, or lack memory |
//! | `varying_lengths` | sequences of another length in each step |
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod disturbed;
mod figures;
mod varying_lengths;
