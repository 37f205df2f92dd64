//! A GPU allocation cache for work that repeats.
//!
//! A training step, a decoding step or a frame allocates the same arrays again and again. Put that code in a *scope*, by
//! [`#[cache_scope(train_step)]`](prelude::cache_scope) on a function or [`cache_scope!`] around a block. The first
//! iterations allocate memory from the device. After that, each [`Array`] inside the scope gets memory that the scope has kept, as if you
//! had preallocated all buffers by hand.
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
//! assert_eq!(invalidate("train_step").bytes, 32 * 64 * 4); // frees the memory
//! # Ok::<(), gpucache::Error>(())
//! ```
//!
//! # Where to look
//!
//! | to | see |
//! |---|---|
//! | allocate arrays, and read and write them | [`Array`], [`Allocate`], [`Element`], [`Shape`] |
//! | choose a device: a GPU, the host, or a device without memory for dry runs | [`device`] |
//! | name a scope | [`prelude::cache_scope`] (attribute), [`cache_scope!`] (block), [`Scope`] (value), [`uncached!`] |
//! | free a scope's memory | [`invalidate`], [`invalidate_all`] |
//! | limit the memory of a device or a scope, or free idle memory | [`Limit`], [`Device::set_limit`](device::Device::set_limit), [`Scope::limit`], [`Device::trim`](device::Device::trim) |
//! | work with arrays that do not fit the device | [`offload`] |
//! | see what a scope, a device or the process holds | [`stats()`], [`Device::stats`](device::Device::stats), [`stats`](mod@stats) |
//! | find out why a scope holds too much or is not planned | [`diagnose()`], [`diagnose_all`], [`diagnosis`] |
//! | handle an error, such as out of memory | [`Error`], [`error`] |
//! | launch kernels with arrays, or capture a CUDA graph | [`launch`], `graph` |
//! | train on several GPUs, by NCCL | `nccl` |
//! | have candle or other crates on cudarc allocate from scopes | `foreign` |
//! | record every allocation of a run | [`trace`] |
//! | compute memory layouts | [`plan`] |
//!
//! The pages in [`docs`] explain limits, offloading, porting and much more; [the glossary](docs::glossary) defines the terms.
//!
//! # Guarantees
//! - Memory is reused only after the drop of the array that used it. An array may leave its scope, its function and its thread, and a
//!   scope may end in any way.
//! - Once a scope is [warm](docs::glossary), it makes no allocation call to the device and none on the host's heap.
//! - No drop panics. The next fallible call on the same stream returns the error of a drop.
//! - The crate builds without CUDA. The driver is loaded at run time when a program asks for a GPU.
//!
//! # Imports
//! The attribute and the block macro have the same name, and one `use` cannot bring both on stable Rust. The [`prelude`] has the
//! attribute, and the root has the block macro. A module that needs both writes:
//!
//! ```
//! use gpucache::{cache_scope, prelude::*};
//!
//! #[cache_scope(outer)] // the attribute
//! fn outer(host: &Host) -> gpucache::Result<f32> {
//!     let input = Array::full(host, 16, 1.0f32)?;
//!     cache_scope!(inner, { Ok(Array::full(host, 16, 2.0f32)?.iter().chain(&*input).sum()) }) // the block
//! }
//!
//! assert_eq!(outer(&Host::new())?, 48.0);
//! # Ok::<(), gpucache::Error>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(feature = "foreign", not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))))]
compile_error!("gpucache's feature `foreign` is for Linux on x86-64 or AArch64: enable it for that target alone");

mod array;
pub mod device;
pub mod diagnosis;
#[cfg(feature = "foreign")]
pub mod foreign;
pub mod graph;
#[cfg(feature = "nccl")]
pub mod nccl;
pub mod offload;
pub mod plan;
mod scope;
pub mod stats;
pub mod trace;

#[cfg(feature = "cuda")]
pub use cudarc;

pub use array::{Allocate, Array, Element, Shape};
pub use gpucache_engine::cache::Recycle;
pub use gpucache_engine::{Error, Limit, Result};
pub use scope::{
    OwnedScope, Scope, ScopeGuard, auto_scope, diagnose, diagnose_all, invalidate, invalidate_all, scopes, stats,
};

/// The parts of an out-of-memory [`Error`].
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
/// On a GPU, use `gpu.launch_builder(&kernel).arg(&input).arg(&mut output).arg(&number)` ([`Cuda::launch_builder`]). It knows the stream
/// of the launch and the stream of each array. So it makes no further driver call unless the streams differ. On the host, use
/// [`Host::launch`](crate::device::Host::launch).
///
/// Other ways work too, for code that is written for cudarc. They cost more:
///
/// | way | cost |
/// |---|---|
/// | `gpu.launch_builder(..).arg(&array)`, also with `&mut array` and `&view` | none on the array's own stream; otherwise one event for all work on a stream |
/// | cudarc's functions that take a stream and an array: copies, cuBLAS, NCCL, `DevicePtr`; also `array.part_mut(..)` | the same |
/// | cudarc's own builder, `stream.launch_builder(..).arg(&array)` | none while the context has one stream; otherwise up to two events for each array. Pages may return to the device only after all work of the context |
/// | `&*array` (a `&CudaSlice`), `as_view_mut`, `slice_mut`, `split_at_mut` | before the next write of the array or the reuse of its memory, its stream waits for all work of the context |
/// | `CudaSlice::try_from(array)` | the array gives its memory up; memory of the device's range is copied first |
///
/// [`Cuda::launch_builder`]: crate::device::Cuda::launch_builder
pub mod launch {
    pub use crate::array::Arguments;
    #[cfg(feature = "cuda")]
    pub use crate::array::{ArrayView, ArrayViewMut, KernelArgument, Launch};
}

/// Compiles the programs in the README, one of which compiles a kernel.
#[cfg(all(doctest, feature = "nvrtc", feature = "nccl", feature = "foreign"))]
#[doc = include_str!("../README.md")]
pub mod readme {}

/// Makes a page of each file.
#[cfg(any(doc, doctest))]
macro_rules! pages {
    ($($(#[$condition:meta])* $name:ident: $page:literal;)*) => { $(
        $(#[$condition])*
        // Where its links to other pages lead in this documentation. In a clone they lead to files.
        #[cfg_attr(not(doctest), doc = include_str!("../docs/links.txt"))]
        #[doc = include_str!($page)]
        pub mod $name {}
    )* };
}

/// Pages beside the README: references, and how to port a program.
#[cfg(any(doc, doctest))]
pub mod docs {
    pages! {
        coming_from: "../docs/coming_from.md";
        environment: "../docs/environment.md";
        features: "../docs/features.md";
        figures: "../docs/figures.md";
        // Its program uses the front end.
        #[cfg(any(not(doctest), feature = "foreign"))]
        foreign: "../docs/foreign.md";
        glossary: "../docs/glossary.md";
        guarantees: "../docs/guarantees.md";
        limits: "../docs/limits.md";
        observing: "../docs/observing.md";
        placed: "../docs/placed.md";
        // Its programs compile kernels.
        #[cfg(any(not(doctest), feature = "nvrtc"))]
        porting: "../docs/porting.md";
        scopes: "../docs/scopes.md";
        using: "../docs/using.md";
    }

    /// Each guide solves one task: a complete program, its output, and the changes for your own program.
    pub mod guides {
        pages! {
            candle: "../docs/guides/candle.md";
            // The programs of this one and of `train` compile a kernel.
            #[cfg(any(not(doctest), feature = "nvrtc"))]
            graphs: "../docs/guides/graphs.md";
            memory_grows: "../docs/guides/memory_grows.md";
            offload: "../docs/guides/offload.md";
            serve: "../docs/guides/serve.md";
            #[cfg(any(not(doctest), feature = "nccl"))]
            several_gpus: "../docs/guides/several_gpus.md";
            #[cfg(any(not(doctest), feature = "nvrtc"))]
            train: "../docs/guides/train.md";
        }
    }
}

/// The names that most programs need: `use gpucache::prelude::*;`.
///
/// Its [`cache_scope`](prelude::cache_scope) is the attribute. To use the block macro as well, write
/// `use gpucache::{cache_scope, prelude::*};`.
pub mod prelude {
    pub use crate::array::{Allocate, Array};
    #[cfg(feature = "cuda")]
    pub use crate::device::Cuda;
    pub use crate::device::{Device, Host};
    pub use crate::scope::invalidate;
    /// Runs the body of a function inside a scope. [`cache_scope!`](crate::cache_scope!) does the same for a block.
    ///
    /// To use both in one module, write `use gpucache::{cache_scope, prelude::*};`.
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
    pub use crate::scope::{AsName, forget};
    use gpucache_engine::Limit;
    use gpucache_engine::base::limit::NoLimit;

    /// Starts what the environment asks for, for a front end whose scopes are not entered by this crate.
    pub fn start_from_environment() {
        crate::stats::start_from_environment();
    }

    /// The limit of a literal text in a macro. It runs in the compiler alone, where the panic is the error.
    #[track_caller]
    #[expect(clippy::panic, reason = "a constant has no other way to report an error")]
    pub const fn limit(text: &str) -> Limit {
        match Limit::parse(text) {
            Ok(limit) => limit,
            Err(NoLimit::AboveWhole) => panic!("not a limit: a share is at most 100%"),
            Err(_) => panic!(
                "not a limit: write bytes (\"20GiB\", \"500MB\" or \"1048576\"; the units are KiB MiB GiB TiB and KB MB GB TB) or a \
                 share of the device (\"80%\"), with \"soft \" in front for a soft limit, or \"none\""
            ),
        }
    }

    pub use gpucache_macros::{cache_scope_block, refuse_await};
}
