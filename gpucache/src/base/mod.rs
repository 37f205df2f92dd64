//! What every layer speaks of: errors, and the key under which memory is cached.

pub(crate) mod error;
pub(crate) mod key;
