//! Reads traces of gpucache: replays them, compares them, and writes them in the formats of other tools.
//!
//! A [`Run`] holds the events of a trace. It comes from a file, which any program writes with `GPUCACHE_TRACE=run.csv` in the environment,
//! or from [`gpucache::trace::stop`] within the program. [`replay`] shows how much memory a run takes under another policy, with another
//! page size or below a limit. [`compare()`] shows what grew between two runs. Each format is a module with a function that writes to any
//! [`std::io::Write`].
//!
//! | module | reader |
//! |---|---|
//! | [`page`] | a browser; the report page is one file |
//! | [`snapshot`] | PyTorch's viewer of memory snapshots, `pytorch.org/memory_viz` |
//! | [`perfetto`] | `ui.perfetto.dev`, and other readers of Chrome's trace format |
//! | [`rmm`] | programs that replay the logs of RMM's `logging_resource_adaptor` |
//! | [`prometheus`] | Prometheus, and other readers of its text format |
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

mod compare;
mod error;
mod lives;
pub mod page;
pub mod perfetto;
pub mod prometheus;
pub mod replay;
pub mod rmm;
mod run;
pub mod snapshot;
mod text;

pub use compare::{Change, Comparison, DeviceComparison, compare};
pub use error::Error;
pub use run::{Event, Op, Reserved, Run};
