//! A made-up NCCL over the made-up CUDA driver: the functions that gpucache calls. The ranks are threads of one process.
//!
//! It is made to show mistakes:
//!
//! - All communicators are non-blocking. Each call returns `ncclInProgress`, and another thread queues the work a moment later.
//! - A collective is a function of the host in the order of its stream. It waits for all ranks, for as long as none aborts.
//! - A call while another one of the same communicator is in progress is an error (`ncclInvalidUsage`).
//! - Memory is registered only if it was allocated here, and may be freed only if it is not registered.
//!
//! `madeup_nccl_refuse(1)` lets registrations fail. Elements are reduced as `u32` and `f32`.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

mod comm;
mod driver;
mod exports;
mod memory;
mod reduce;
mod world;
