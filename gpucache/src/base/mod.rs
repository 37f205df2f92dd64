//! What every layer speaks of: errors, the key under which memory is cached, and what threads meet by.

pub(crate) mod error;
pub(crate) mod key;
pub(crate) mod sync;
