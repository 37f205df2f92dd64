//! Scoped allocation caches for GPU work that repeats itself.
//!
//! A training step, a decoding step, a frame allocates the same arrays again and again. Name the block, by
//! [`#[cache_scope(train_step)]`](prelude::cache_scope) on a function or [`cache_scope!`] around a block, and every
//! [`Array`] allocated inside comes from the thread's cache of that name: a new one the first time, a recycled one ever
//! after. [`invalidate`] gives the memory back.
//!
//! ```
//! use gpucache::prelude::*;
//!
//! #[cache_scope(train_step)]
//! fn step<D: Device>(device: &D) -> gpucache::Result<f32> {
//!     let gradients = Array::full(device, [32, 64], 0.5f32)?;
//!     Ok(gradients.to_vec()?.iter().sum())
//! }
//!
//! let device = Host::new(); // or Cuda::new(0)?
//! for _ in 0..10 {
//!     step(&device)?;
//! }
//! let stats = gpucache::stats("train_step").unwrap();
//! assert_eq!((stats.hits, stats.misses), (9, 1));
//! assert_eq!(invalidate("train_step").bytes, 32 * 64 * 4);
//! # Ok::<(), gpucache::Error>(())
//! ```
//!
//! # What holds
//! - Memory is handed out again only after the array that had it was dropped, whatever leaves a scope, a function or a
//!   thread, and however the scope ends.
//! - A warm scope makes no allocation call to a device and none on the host's heap.
//! - No drop panics; what it could not report, the next fallible call on the same stream returns.
//! - Everything builds without CUDA; the driver is loaded when a GPU is asked for.
//!
//! # The way through the code
//! `scope` (names, guards) → `diagnosis` (what is wrong with a scope) → `report` (what the process does, read as plain data) → `placed` (arrays
//! that may rest on the host) → `array` (types), and beside it `foreign` (what other crates allocate) → `device` (handles of streams).
//! Each module uses only those after it. Below them are two crates: `gpucache-engine` serves bytes on a stream, and its first page tells how a
//! request passes through it; `gpucache-plan` computes layouts and moves. `DESIGN.md` says why.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(feature = "foreign", not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))))]
compile_error!("gpucache's feature `foreign` is for Linux on x86-64 or AArch64: enable it for that target alone");

mod array;
pub mod device;
pub mod diagnosis;
#[cfg(feature = "foreign")]
pub mod foreign;
pub mod offload;
pub mod plan;
mod scope;
pub mod stats;
pub use gpucache_engine::trace;

#[cfg(feature = "cuda")]
pub use cudarc;

pub use array::{Allocate, Array, Element, Shape};
pub use gpucache_engine::{Error, Limit, Recycle, Result};
pub use scope::{OwnedScope, Scope, ScopeGuard, diagnose, diagnose_all, invalidate, invalidate_all, scopes, stats};

/// What an [`Error`] says about missing memory.
///
/// ```
/// use gpucache::{device::Virtual, error::Bound, prelude::*};
///
/// let error = Virtual::new(1 << 20).zeros::<u8>(2 << 20).unwrap_err();
/// assert_eq!(error.shortage().unwrap().bound, Bound::Capacity);
/// ```
pub mod error {
    pub use gpucache_engine::{Bound, ScopeMemory, Shortage};
}

/// How arrays are passed to work on a stream: to kernels, and to functions on a stream of the host.
///
/// [`Cuda::launch_builder`](crate::device::Cuda::launch_builder) and [`Host::launch`](crate::device::Host::launch) take arrays by
/// reference.
pub mod launch {
    pub use crate::array::Arguments;
    #[cfg(feature = "cuda")]
    pub use crate::array::{ArrayView, Launch};
}

/// CUDA graphs of work that uses arrays: see [`Cuda::capture`](crate::device::Cuda::capture).
#[cfg(feature = "cuda")]
pub mod graph {
    pub use crate::array::Graph;
}

/// Compiles the programs in the README, one of which compiles a kernel.
#[cfg(all(doctest, feature = "nvrtc", feature = "foreign"))]
#[doc = include_str!("../README.md")]
pub mod readme {}

/// Pages beside the README: references, and how to port a program.
#[cfg(any(doc, doctest))]
pub mod docs {
    // Before each page: where its links to other pages lead in this documentation. In a clone they lead to files.
    #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
    #[doc = include_str!("../docs/coming_from.md")]
    pub mod coming_from {}
    #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
    #[doc = include_str!("../docs/environment.md")]
    pub mod environment {}
    #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
    #[doc = include_str!("../docs/features.md")]
    pub mod features {}
    #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
    #[doc = include_str!("../docs/figures.md")]
    pub mod figures {}
    // Its program uses the front end.
    #[cfg(any(not(doctest), feature = "foreign"))]
    #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
    #[doc = include_str!("../docs/foreign.md")]
    pub mod foreign {}
    #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
    #[doc = include_str!("../docs/glossary.md")]
    pub mod glossary {}
    #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
    #[doc = include_str!("../docs/guarantees.md")]
    pub mod guarantees {}
    /// Each guide solves one task: a complete program, what it prints, and what to change for your own one.
    pub mod guides {
        #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
        #[doc = include_str!("../docs/guides/candle.md")]
        pub mod candle {}
        // Its program compiles a kernel.
        #[cfg(any(not(doctest), feature = "nvrtc"))]
        #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
        #[doc = include_str!("../docs/guides/graphs.md")]
        pub mod graphs {}
        #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
        #[doc = include_str!("../docs/guides/memory_grows.md")]
        pub mod memory_grows {}
        #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
        #[doc = include_str!("../docs/guides/offload.md")]
        pub mod offload {}
        #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
        #[doc = include_str!("../docs/guides/serve.md")]
        pub mod serve {}
        // Its program compiles a kernel.
        #[cfg(any(not(doctest), feature = "nvrtc"))]
        #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
        #[doc = include_str!("../docs/guides/train.md")]
        pub mod train {}
    }
    #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
    #[doc = include_str!("../docs/limits.md")]
    pub mod limits {}
    #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
    #[doc = include_str!("../docs/observing.md")]
    pub mod observing {}
    #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
    #[doc = include_str!("../docs/placed.md")]
    pub mod placed {}
    // Its programs compile kernels.
    #[cfg(any(not(doctest), feature = "nvrtc"))]
    #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
    #[doc = include_str!("../docs/porting.md")]
    pub mod porting {}
    #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
    #[doc = include_str!("../docs/scopes.md")]
    pub mod scopes {}
    #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
    #[doc = include_str!("../docs/using.md")]
    pub mod using {}
}

/// What most programs need: `use gpucache::prelude::*;`.
pub mod prelude {
    pub use crate::array::{Allocate, Array};
    #[cfg(feature = "cuda")]
    pub use crate::device::Cuda;
    pub use crate::device::{Device, Host};
    pub use crate::scope::invalidate;
    /// A scope around a function, as [`cache_scope!`](crate::cache_scope!) is one around a block.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// #[cache_scope(norm)]
    /// fn norm<D: Device>(device: &D, values: &[f32]) -> gpucache::Result<f32> {
    ///     let copy = Array::from_slice(device, values.len(), values)?;
    ///     Ok(copy.to_vec()?.iter().map(|x| x * x).sum::<f32>().sqrt())
    /// }
    ///
    /// assert_eq!(norm(&Host::new(), &[3.0, 4.0])?, 5.0);
    /// assert_eq!(norm(&Host::new(), &[5.0, 12.0])?, 13.0); // in the same memory
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub use gpucache_macros::cache_scope;
}

/// The procedural half of [`cache_scope!`], and what both macros write. Not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use crate::scope::AsName;
    use gpucache_engine::Limit;

    /// The limit of a literal text in a macro. It runs in the compiler alone, where the panic is the error.
    #[track_caller]
    #[expect(clippy::panic, reason = "a constant has no other way to report an error")]
    pub const fn limit(text: &str) -> Limit {
        match Limit::parse(text) {
            Some(limit) => limit,
            None => panic!(
                "not a limit: write bytes (\"20GiB\", \"500MB\" or \"1048576\") or a share of the device (\"80%\"), with \"soft \" in \
                 front for a soft limit, or \"none\""
            ),
        }
    }

    pub use gpucache_macros::cache_scope_block;
}
