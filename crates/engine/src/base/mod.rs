//! The lowest folder of the engine: types that every other folder uses. Other folders call it; it handles no request itself.
//!
//! - `error`, `shortage` and `advice`: the error type, the figures that explain an out-of-memory error, and its advice.
//! - `limit`: how much memory may be held, and the texts of limits.
//! - `amounts`, `table` and `output`: numbers with units, text tables, and files or pipes to write them to.
//! - `sync`: locks and atomics. `held`: checks that no lock is held while code of the program runs.
//! - `errand`: work that one thread does for all threads. `per_thread`: values of the calling thread. `finally`: the end of a block.
//! - `panics`: panics in code of the program.
//! - `opened`: a list of open entries. `subscriber`: events for the crate `tracing`.

mod advice;
pub mod amounts;
pub mod errand;
pub mod error;
pub mod finally;
pub mod held;
pub mod limit;
pub mod opened;
pub mod output;
pub(crate) mod panics;
pub(crate) mod per_thread;
pub mod shortage;
#[cfg(feature = "tracing")]
pub mod subscriber;
pub mod sync;
pub mod table;
