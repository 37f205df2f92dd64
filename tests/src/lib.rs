//! What the tests of the workspace share: a device that counts, checks and fails on demand, and the suite of properties
//! that every device has to have.
// A test helper reports by panicking.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

pub mod conformance;
pub mod faulty;

pub use faulty::Faulty;
