//! What every layer speaks of: errors, and what threads meet by.

pub(crate) mod error;
pub(crate) mod sync;
