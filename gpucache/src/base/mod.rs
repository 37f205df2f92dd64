//! What every layer speaks of: errors, amounts to be read, and what threads meet by.

pub(crate) mod amounts;
pub(crate) mod errand;
pub(crate) mod error;
pub(crate) mod few;
pub(crate) mod held;
pub(crate) mod opened;
#[cfg(any(unix, windows))]
pub(crate) mod output;
pub(crate) mod shortage;
#[cfg(feature = "tracing")]
pub(crate) mod subscriber;
pub(crate) mod sync;
pub(crate) mod table;
