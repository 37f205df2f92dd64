//! A made-up CUDA driver: the functions of `libcuda` that cudarc and gpucache call, over host memory, for one device.
//!
//! It is made to show mistakes:
//!
//! - Each stream is a queue with a thread of its own, so work in a wrong order reads wrong values.
//! - New memory is garbage and freed memory is poisoned, both in the order of the stream.
//! - Pages that are not mapped fault.
//! - Handles of destroyed streams are given out again.
//! - If pages are unmapped while work uses them, the context is lost, as on a GPU. From then on, every call reports an illegal
//!   address (`uses`).
//!
//! Freed memory is not kept in a pool. There are only three kernels (`kernels`); in other cases, `cuLaunchHostFunc` runs a function
//! of the host in a stream's order. Streams can be captured, with CUDA's rules (`capture`). Executables of graphs take memory of the
//! device (`executable`), and graphs keep user objects (`user_objects`). Allocations can be captured too, but a graph with them is not launched. A real driver may behave
//! differently in corners that its manual leaves open.
//!
//! Three functions exist only here. `madeup_calls(name)` returns how often a function of the driver was called,
//! `madeup_delay(stream, milliseconds)` lets a stream sleep, and `madeup_fail(name, after, times, status)` lets calls of a function
//! fail: after the next `after` calls, `times` calls only return `status`. `MADEUP_BYTES` sets the device's memory (1 GiB by default).
//! `MADEUP_POOLS=0` removes its memory pools, `MADEUP_PAGES=0` its virtual memory management, and `MADEUP_PINNED=0` the host's
//! pinned memory.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

mod answer;
mod arena;
mod capture;
mod capture_calls;
mod context;
mod device;
mod events;
mod executable;
mod fails;
mod graph;
mod graph_calls;
mod graph_nodes;
mod kernels;
mod launch;
mod memory;
mod own;
mod pages;
mod pinned;
mod pointers;
mod pools;
mod queue;
mod raw;
mod status;
mod stream_calls;
mod streams;
mod table;
#[cfg(test)]
mod tests;
mod transfers;
mod unsupported;
mod user_objects;
mod uses;
mod work;
