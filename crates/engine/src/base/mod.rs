//! What every layer speaks of: errors, amounts to be read, and what threads meet by.

pub mod amounts;
pub mod errand;
pub mod error;
pub mod held;
pub mod limit;
pub mod opened;
#[cfg(any(unix, windows))]
pub mod output;
pub(crate) mod per_thread;
pub mod shortage;
#[cfg(feature = "tracing")]
pub mod subscriber;
pub mod sync;
pub mod table;
