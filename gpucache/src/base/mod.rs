//! What every layer speaks of: errors, numbers of bytes, and what threads meet by.

pub(crate) mod bytes;
pub(crate) mod error;
pub(crate) mod sync;
