//! Replays the allocations and frees of a program on any device, under any policy and limit.
//!
//! A [`History`] comes from a file, such as a log of RMM, or from a [`Run`](crate::Run). [`replay`] runs it on a device. [`dry_run`] runs
//! it on a device without memory, whose pages have the size in the trace. [`smallest_limit`] finds the least memory that suffices.
//!
//! A history has arrays and scopes, but not the program's own calls of [`gpucache::invalidate`] and
//! [`Device::trim`](gpucache::device::Device::trim). So a replay may reserve more memory than the program did.
//!
//! ```
//! use std::num::NonZeroUsize;
//!
//! use gpucache::{cache_scope, prelude::*, trace};
//! use gpucache_report::{Run, replay::{History, Policy, dry_run, smallest_limit}};
//!
//! trace::start(1000);
//! for _ in 0..10 {
//!     cache_scope!(step, {
//!         let activations = Host::new().zeros::<f32>([1024, 1024])?;
//!         let gradients = activations.try_clone()?;
//!     });
//! }
//! let history = History::of("ten steps", &Run::from(&trace::stop()))?;
//! for policy in Policy::ALL {
//!     let figures = dry_run(&history, policy, None, NonZeroUsize::MIN)?;
//!     assert_eq!(figures.peak_reserved_bytes, 8 << 20);
//!     assert_eq!(smallest_limit(&history, policy, NonZeroUsize::MIN)?, Some(8 << 20));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | content |
//! |---|---|
//! | `history`, `builder` | a history, and the checks while it is read |
//! | `file`, `format`, `csv`, `rmm`, `traced`, `caches` | the sources of histories, and the caches in which they allocate |
//! | `policy`, `pass` | the policies, and the loop |
//! | `watched`, `contents`, `served` | observations of a pass: reserved bytes, contents, and the parts that served the arrays |
//! | `measure`, `dry` | the figures, on any device and on a device without memory |

mod builder;
mod caches;
mod contents;
mod csv;
mod dry;
mod file;
mod format;
mod history;
mod measure;
mod pass;
mod policy;
mod rmm;
mod served;
mod traced;
mod watched;

pub use contents::Contents;
pub use dry::{dry_run, smallest_limit};
pub use history::History;
pub use measure::{Figures, replay};
pub use policy::Policy;
pub use served::Shares;
