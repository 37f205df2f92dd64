//! The engine of gpucache: serves bytes on a stream in a named scope.
//!
//! Front ends ([gpucache](https://docs.rs/gpucache) is one) make arrays of these bytes. The engine knows no element types. It knows
//! streams, named scopes, and requests for a number of bytes with a shape. If a scope repeats its requests, the engine plans them
//! with `gpucache-plan`.
//!
//! # Calls of a front end
//!
//! | task | items |
//! |---|---|
//! | name a scope, and get this thread's cache of it | [`cache::NamedCaches`], [`cache::Cache`] |
//! | enter and leave a scope | [`cache::Cache`], [`cache::Current`], with [`cache::Terms`] |
//! | allocate, use and free bytes | [`cache::Block`], with a [`record::Request`] on a [`device::Stream`] |
//! | find out which entry of which scope the thread is in | [`cache::Entry`] |
//! | order streams behind each other's uses | [`cache::Block`], [`record::Fence`], [`record::View`] |
//! | find a block by its address | `cache::Block::keep_by_address`, `take_at`, `with_at` |
//! | keep memory for a captured graph | `cache::GraphMemory` (CUDA) |
//! | copy bytes between a device and its host | [`device::CopyStream`], [`cache::Block::copy_over`], [`device::Span`] |
//! | limit and reclaim memory | [`pressure`], [`range::DeviceRange`] |
//! | read statistics, and facts for a diagnosis | [`home::Counts`], [`cache::ScopeFacts`] |
//! | trace a run | [`trace::Trace`] |
//! | add a kind of device | [`device::Backend`], [`device::VirtualMemory`] |
//! | use other libraries' streams, and answer their calls | `device::Handle`, `device::GpuStream` (CUDA) |
//!
//! A front end hands a [`device::Stream`], a [`device::Memory`] and a [`trace::Trace`] on to its own users. So the documentation hides
//! the methods that only front ends need.
//!
//! # The folders, from the top
//!
//! Each folder uses only the folders below it.
//!
//! | folder | content |
//! |---|---|
//! | [`cache`] | one scope's memory on one thread: entries, keyed lists, the steps of a supply, the registry of names |
//! | `planner` | which plan serves an entry, and what the planner learns from an entry |
//! | [`home`] | who may touch a cache: the owner without a lock, other threads by counters and a return stack; statistics and facts |
//! | [`pressure`] | the reclaim steps of a request that finds no memory; limits |
//! | [`record`] | a block through all its lives, and who uses it |
//! | [`range`] | addresses: best fit, coalescing, pages, trim; one range per device |
//! | `order` | epochs: whose work may still use free memory |
//! | [`device`] | the functions of a machine: memory on a stream, events, pages, copies |
//! | [`trace`] | recorded events: a ring of events for each thread, their order, their file |
//! | `base` | errors, locks, amounts; shared with front ends |
//!
//! # The path of a request
//!
//! **A planned allocation.** [`Block::planned`](cache::Block::planned) finds the innermost scope's cache by one thread-local load
//! (`cache/current`). The thread is inside the scope, so it owns the cache (`home/hold`). The planner serves the plan's next
//! position (`planner/serve`): the cursor of `gpucache-plan` expects these bytes, and the lease says that the arena is still there
//! (`pressure/lease`). A record from a stack gets the position's address (`record/record`). This path makes no call and takes no
//! lock.
//!
//! **A miss.** [`Block::allocate`](cache::Block::allocate) asks the owner's side (`cache/owner`). It looks once for memory within
//! the scope: a position of the plan, in order or out of order, or an idle block of the keyed lists (`cache/local`, `cache/lists`).
//! Then it takes the steps of a supply (`cache/supply`), the cheapest first. It takes free memory of the range (`range/supply`) or idle
//! memory of other scopes, moves pages, or grows the range. A new record describes the memory (`record/lives`).
//!
//! **A drop.** `Block::drop` (`cache/block`) reads from the record's drop path what it has to do (`record/identity`). Inside the
//! scope, a planned block returns to the cursor, and a listed block returns to its list. Another thread leaves the record on a
//! return stack (`home/returns`), and the owner takes it from there at its next miss or exit. A block that other streams may still
//! use waits (`cache/deferred`).
//!
//! **A reclaim.** If the device refuses a request, the request takes the reclaim steps (`pressure/serve`; `pressure/steps` lists
//! them), in this order:
//!
//! 1. Move free pages.
//! 2. Release idle memory of other scopes, then of the own scope (`pressure/reclaim`).
//! 3. Reuse memory of other streams.
//! 4. Wait for work.
//! 5. Offload arrays to host memory.
//! 6. Drop graphs of captured scopes.
//! 7. Take arenas (`pressure/lease`).
//! 8. Wait for other threads (`pressure/limits` says how long).
//! 9. Call the program's handlers (`pressure/handlers`).
//!
//! Each owner of memory registers as a holder, so no step has to name a folder above.

#![cfg_attr(docsrs, feature(doc_cfg))]
// The pages of modules also help readers of the code, so they link to private items.
#![allow(rustdoc::private_intra_doc_links)]

// Shared with front ends, but not part of the public interface.
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
pub use base::limit::Limit;
pub use base::shortage::{Bound, ScopeMemory, Shortage};

/// Compiles the program in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub mod readme {}
