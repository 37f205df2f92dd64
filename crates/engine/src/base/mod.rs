//! What every layer speaks of: errors, amounts to be read, and what threads meet by.

pub mod amounts;
pub mod errand;
pub mod error;
pub mod few;
pub mod held;
pub(crate) mod mode;
pub mod opened;
#[cfg(any(unix, windows))]
pub mod output;
pub mod shortage;
#[cfg(feature = "tracing")]
pub mod subscriber;
pub mod sync;
pub mod table;
