//! Plans for memory whose use repeats: pure arithmetic over plain data, without a device, a clock or `unsafe`.
//!
//! The crate has four folders. `entries` uses `layout`, and `loops` uses `entries`; no other folder uses another one.
//!
//! - `layout` computes offsets for buffers with known lifetimes, at the lowest height that it can find. You can use it on its own:
//!   [`layout()`], [`Solver`], [`Layout::extend`].
//! - [`entries`] finds out what memory the repetitions of a block of work need. It records them, combines them into one envelope, and
//!   serves each allocation from a layout. An array that outlives its repetition is served from a ring.
//! - [`loops`] finds repetitions in a stream of allocations whose repetitions nobody marks.
//! - [`offload`] decides which arrays leave a device that is too small for all of them, and when they move.
//!
//! ```
//! use gpucache_plan::{Buffer, layout};
//!
//! // Three activations: the first and the last are never alive at the same time.
//! let buffers = [
//!     Buffer { lower: 0, upper: 2, size: 1 << 20 },
//!     Buffer { lower: 1, upper: 4, size: 2 << 20 },
//!     Buffer { lower: 2, upper: 4, size: 1 << 20 },
//! ];
//! assert_eq!(layout(&buffers)?.height, 3 << 20);
//! # Ok::<(), gpucache_plan::TooLarge>(())
//! ```

#![forbid(unsafe_code)]

pub mod entries;
mod layout;
pub mod loops;
pub mod offload;

pub use layout::{Buffer, Layout, LayoutError, Solver, TooLarge, check, layout, lower_bound};

/// Compiles the program in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub mod readme {}
