//! The addresses in captured work.

use crate::base::error::Error;

/// A value in captured work that is, or may be, the address of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The value now.
    pub value: u64,
    /// Whether it is certainly an address. An argument of a kernel on a GPU may also be a number.
    pub is_address: bool,
    /// Whether the work is known to write there.
    pub is_written: bool,
}

/// The error for work that a graph cannot have.
pub(in crate::device) fn uncapturable(what: &str) -> Error {
    Error::unavailable("a graph of the captured work", what, "leave this work out of the captured block")
}
