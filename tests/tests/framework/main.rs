//! Memory that frameworks use by its address. Each test runs in a process of its own.
//!
//! | file | content |
//! |---|---|
//! | `streams` | memory that several streams use |
//! | `devices` | several GPUs, and processes that fork |
//! | `graphs` | pools of captured graphs |
//! | `waits` | a range that waits for freed memory before it grows |
//! | `crowd` | threads that allocate at random |
//! | `attack` | random programs of several threads |
#![cfg(all(feature = "cuda", target_os = "linux"))]
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, unsafe_code)]

mod attack;
mod crowd;
mod devices;
mod graphs;
mod streams;
mod waits;
