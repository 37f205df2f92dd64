//! The engine of gpucache: serves bytes on a stream in a named scope.
//!
//! Front ends ([gpucache](https://docs.rs/gpucache) is one) make arrays of these bytes. The engine knows no types of elements. It knows
//! streams, named scopes, and requests of so many bytes with a shape. It plans what repeats, by `gpucache-plan`.
//!
//! # What a front end uses
//!
//! | to | it calls |
//! |---|---|
//! | name a scope, and get the thread's cache of it | [`cache::NamedCaches`], [`cache::Cache`] |
//! | enter and leave it | [`cache::Cache`], [`cache::Current`], with [`cache::Terms`] |
//! | allocate, use and free bytes | [`cache::Block`], by a [`record::Request`] on a [`device::Stream`] |
//! | tell which entry of which scope the thread is in | [`cache::Entry`] |
//! | have streams follow each other's uses | [`cache::Block`], [`record::Fence`], [`record::View`] |
//! | move bytes between a device and its host | [`device::Lane`], [`cache::Crossing`], [`device::Span`] |
//! | limit and reclaim memory | [`pressure`], [`range::DeviceRange`] |
//! | read statistics, and facts for a diagnosis | [`home::Counts`], [`cache::ScopeFacts`], [`home::Facts`] |
//! | trace a run | [`trace`] |
//! | add a kind of device | [`device::Backend`], [`device::Device`], [`device::VirtualMemory`] |
//! | borrow streams and answer calls of other libraries | `device::Handle`, `device::GpuStream` (CUDA) |
//!
//! A [`device::Stream`] and a [`device::Memory`] are handed on to users of a front end. Methods that only front ends need are hidden in
//! their documentation.
//!
//! # The folders, from the top
//!
//! Each uses only those below it.
//!
//! | folder | its matter |
//! |---|---|
//! | [`cache`] | one scope's memory on one thread: entries, keyed lists, the steps of a supply, the registry of names |
//! | `planner` | which plan serves an entry, and what an entry teaches |
//! | [`home`] | who may touch a cache: one owner without a lock, others by counters and a return stack; statistics and facts |
//! | [`pressure`] | what a shortage asks, whom, and in which order; limits |
//! | [`record`] | a block through all its lives, and who uses it |
//! | [`range`] | addresses: best fit, coalescing, pages, trim; one per device |
//! | `order` | epochs: whose work may still use free memory |
//! | [`device`] | what a machine offers: memory on a stream, events, pages, copies |
//! | [`trace`] | what happened: a ring of events for each thread, their order, their file |
//! | `base` | errors, locks, amounts; shared with front ends |
//!
//! # How a request passes
//!
//! **A planned allocation.** [`Block::planned`](cache::Block::planned) asks the innermost scope's cache (`cache/current`, one thread-local
//! load) → the thread owns it (`home/hold`) → the planner serves the next position (`planner/serve`): the cursor of `gpucache-plan` expects
//! these bytes, and the lease says that the arena is still there (`pressure/lease`) → a record from a stack gets its address
//! (`record/record`). No call, no lock.
//!
//! **A miss.** [`Block::allocate`](cache::Block::allocate) → the owner's side (`cache/owner`) resolves the request once: by a place in the plan,
//! in order or off it, or by the keyed lists (`cache/local`, `cache/lists`) → the steps of a supply, in order of their price
//! (`cache/supply`): free memory of the range (`range/supply`), idle memory of other scopes, pages that move, a range that grows →
//! a new record (`record/lives`).
//!
//! **A drop.** `Block::drop` (`cache/block`) → the record's drop path (`record/identity`) says what is due. A planned block returns to the
//! cursor, a listed one to its list, if the thread is inside the scope. Another thread leaves the record on a return stack
//! (`home/returns`), and the owner takes it from there at its next miss or exit. What other streams may still use waits (`cache/deferred`).
//!
//! **A reclaim.** A request that the device refuses takes the reclaim steps (`pressure/serve`; their list is in `pressure/steps`): pages
//! that nothing lies in, idle memory of scopes (`pressure/reclaim`), arrays that may leave for the host, waiting (`pressure/limits` says how
//! long), handlers of the program (`pressure/handlers`). Who has memory registers as a holder, so that no step calls upwards by name.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Pages of modules are for readers of the code too, and lead into it.
#![allow(rustdoc::private_intra_doc_links)]

// Shared with front ends, and no part of the interface.
#[doc(hidden)]
pub mod base;
pub mod cache;
pub mod device;
pub mod home;
mod order;
mod planner;
pub mod pressure;
pub mod range;
pub mod record;
pub mod trace;

pub use base::error::{Error, Result};
pub use base::shortage::{Bound, ScopeMemory, Shortage};
pub use cache::Recycle;
pub use pressure::{Pressure, PressureHandler, ReclaimStats, ReclaimStep, StepUse, on_pressure};

/// Compiles the program in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub mod readme {}
