//! A made-up CUDA driver: the functions of `libcuda` that cudarc and gpucache call, over host memory, for one device.
//!
//! It is made to show mistakes. Each stream is a queue with a thread of its own, so that work whose order was forgotten
//! reads wrong values; new memory is garbage and freed memory is poisoned, both in the order of the stream; pages that
//! are not mapped fault; and handles of streams that were destroyed are given out again. Memory that is freed is not kept
//! in a pool, nothing is captured, and there are three kernels (`kernels`): `cuLaunchHostFunc` runs a function of the host in a
//! stream's order instead. Pages that are unmapped while work uses them lose the context, as on a GPU: from then on every call
//! answers that an illegal address was met (`uses`). Whether the driver of a real GPU answers the same in corners that its manual leaves open is not claimed.
//!
//! Two functions are its own. `madeup_calls(name)` tells how often a function of the driver was called, and
//! `madeup_delay(stream, milliseconds)` lets a stream sleep. `MADEUP_BYTES` is the memory that the device has (1 GiB), and
//! `MADEUP_POOLS=0` takes its memory pools away, `MADEUP_PAGES=0` its virtual memory management,
//! `MADEUP_PINNED=0` the host's pinned memory.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

mod answer;
mod arena;
mod context;
mod device;
mod events;
mod kernels;
mod memory;
mod own;
mod pages;
mod pinned;
mod pointers;
mod pools;
mod queue;
mod raw;
mod stream_calls;
mod streams;
mod table;
#[cfg(test)]
mod tests;
mod transfers;
mod unsupported;
mod uses;
