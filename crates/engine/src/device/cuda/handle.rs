//! The handle by which other libraries name a stream. The files that serve such libraries add its functions.

/// A handle that another library passes. This crate compares handles and never dereferences them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub usize);
