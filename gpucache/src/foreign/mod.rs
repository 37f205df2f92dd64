//! Everyone's tensors: memory that any code of the process allocates through the driver's calls comes from the innermost scope.
//!
//! With the feature `foreign`, on Linux, what candle, kornia and all others allocate through cudarc inside a scope is served by the
//! scope's cache, as [`Array`](crate::Array)s are: planned, recycled, given back by [`invalidate`](crate::invalidate). Their code
//! stays as it is:
//!
//! ```no_run
//! # fn train_step() {}
//! gpucache::foreign::status()?; // tells if it cannot work, and why
//! for _ in 0..100 {
//!     gpucache::cache_scope!(train_step, { train_step() }); // candle's own code
//! }
//! println!("{}", gpucache::stats("train_step").unwrap().foreign);
//! # Ok::<(), gpucache::Error>(())
//! ```
//!
//! # How a call goes
//! A program that links the driver finds this crate's `cuMemAllocAsync` first; one that loads it at run time, as cudarc does by
//! default, opens a small library of ours in its place (`entrance`). Either way the call comes to `hooks`, and from there to
//! `serve`: inside a scope → the stream that the handle means (`streams`) → a block of the scope's
//! cache → its address is noted (`addresses`) and handed out. A free finds the block by its address, and drops it: from there on
//! it is as with any array. What is of no scope goes on to the driver (`driver`).
//!
//! | file | its one matter |
//! |---|---|
//! | `hooks` | the driver's functions, as C calls them |
//! | `serve` | what is served, what passed on, and how a free is ordered |
//! | `streams` | which stream a handle means, found again without a call |
//! | `addresses` | blocks by their addresses |
//! | `entrance`, `shim`, `probe` | how calls come here, and whether they do |
//! | `driver` | the driver's own functions |
//! | `pool`, `info` | the driver's own pool; what counts as free |
#![allow(unsafe_code)]

mod addresses;
mod driver;
mod entrance;
mod hooks;
mod info;
mod pool;
mod probe;
mod serve;
mod shim;
mod streams;

pub use entrance::status;
pub use pool::keep_pool;
pub use probe::Entrance;
