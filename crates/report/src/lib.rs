//! What a program did that gpucache has traced: replayed, and in the formats of other tools.
//!
//! A [`Run`] is the events of a trace: of a file, which `GPUCACHE_TRACE=run.csv` in the environment has any program write, or of
//! [`gpucache::trace::stop`] within the program. [`replay`] tells what a run takes on another device, under another policy or with less
//! memory. Each format is a module with a function that writes to any [`std::io::Write`].
//!
//! | module | what reads it |
//! |---|---|
//! | [`page`] | a browser: a page of its own |
//! | [`snapshot`] | PyTorch's viewer of memory snapshots, `pytorch.org/memory_viz` |
//! | [`perfetto`] | `ui.perfetto.dev`, and whatever reads Chrome's trace format |
//! | [`rmm`] | what replays the logs of RMM's `logging_resource_adaptor` |
//! | [`prometheus`] | whatever reads Prometheus's text format |
//!
//! ```
//! use gpucache::{cache_scope, prelude::*, trace};
//! use gpucache_report::{Run, snapshot};
//!
//! trace::start(100_000);
//! for _ in 0..10 {
//!     cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
//! }
//! let run = Run::from(&trace::stop());
//! snapshot::write_pickle(&run, std::fs::File::create(std::env::temp_dir().join("run.pickle"))?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
pub mod page;
pub mod perfetto;
pub mod prometheus;
pub mod replay;
pub mod rmm;
mod run;
pub mod snapshot;
mod text;

pub use error::Error;
pub use run::{Event, Op, Reserved, Run};
