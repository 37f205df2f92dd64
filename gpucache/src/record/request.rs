//! What a block is asked for.

use std::any::TypeId;
use std::panic::Location;

/// A dtype, the dimensions, and the bytes that they come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) dtype: TypeId,
    pub(crate) type_name: &'static str,
    pub(crate) dims: &'a [usize],
    pub(crate) bytes: usize,
    /// The line of the program that asks, if it is known.
    pub(crate) site: Option<&'static Location<'static>>,
}
