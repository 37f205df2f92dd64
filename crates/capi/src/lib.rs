//! gpucache for programs that are not written in Rust: memory of a scope as an address, with a stream as a raw handle.
//!
//! The C functions are in [`c`], and `include/gpucache.h` declares them. The functions of this page have the same meaning, for front ends
//! in Rust such as the Python package.
//!
//! # How a call is served
//! A call works in the name of a *caller* ([`caller`]). Usually that is its thread. Threads of PyTorch that run a backward pass work in the
//! name of the thread that waits for them ([`helpers`]). A caller knows which scopes it is inside of ([`scopes`]), and the streams behind
//! the handles that it used lately ([`streams`]). [`allocate`] takes a block from the innermost scope's cache, keeps it under its address
//! (`cache::Block` of the engine), and returns the address. [`free`] finds the block again, and drops it. While a graph is captured,
//! its pool serves its streams ([`pools`]).
//!
//! | file | task |
//! |---|---|
//! | `serve` | allocates, frees, and notes uses on other streams |
//! | `shared` | a caller, and the lock around it |
//! | `caller` | which caller a thread works for |
//! | `helpers` | which caller a thread of a backward pass helps |
//! | `scopes` | the scopes that a caller is inside of |
//! | `streams` | the streams behind handles |
//! | `captures` | whether a graph is captured now |
//! | `pools` | memory that captured graphs keep |
//! | `devices` | a device by its number |
//! | `limits` | the memory of a device: limits, trim, statistics |
//! | `forks` | processes that were forked from one that uses a GPU |
//! | `usage` | bytes that are allocated on each device, and their peak |
//! | `c` | the functions for C |
//!
//! A stream other than the one for which the memory was allocated gets it only once all work that was queued on the device at the free is
//! done. Frameworks rely on that order: they free memory while other streams still use it.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(rustdoc::private_intra_doc_links)]

pub mod c;
mod caller;
mod captures;
mod devices;
mod forks;
mod helpers;
mod limits;
mod pools;
mod scopes;
mod serve;
mod shared;
mod streams;
mod usage;

pub use c::last_error;
pub use caller::{enter, enter_uncached, in_scopes, invalidate, leave};
pub use devices::{give_context, message};
pub use helpers::set_backward_helps;
pub use limits::{device_calls, device_stats, reset_peaks, set_limit, trim};
pub use pools::{Filter, capture_begins, capture_ends, open_pools, pool_begin, pool_end, pool_release};
pub use scopes::set_auto_scope;
pub use serve::{allocate, base_address, free, record_stream};
pub use streams::stream_ends;
pub use usage::DeviceUse;
