//! Replays what a program allocated and freed, on any device, under another policy and with less memory.
//!
//! A [`History`] comes from a file, the log of RMM's among them, or from a [`Run`](crate::Run). [`replay`] runs it again on a device,
//! [`dry_run`] on one without memory that has the pages of a GPU, and [`smallest_limit`] says with how little it would have done.
//!
//! A history has arrays and scopes. What a program gave back by itself, by [`gpucache::invalidate`] or [`Device::trim`](gpucache::device::Device::trim), is not in it,
//! so that a replay may hold more than the program did.
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
//! | file | its one matter |
//! |---|---|
//! | `history`, `builder` | what is replayed, and how it is checked as it is read |
//! | `file`, `format`, `csv`, `rmm`, `traced` | where it comes from |
//! | `policy`, `pass` | what serves the arrays, and the loop |
//! | `watched`, `contents`, `served` | what is seen of a pass: bytes held, contents kept, and what served the arrays |
//! | `measure`, `dry` | the figures, on any device and on one without memory |

mod builder;
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
