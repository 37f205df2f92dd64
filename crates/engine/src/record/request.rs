//! The request for a block.

use std::any::TypeId;
use std::panic::Location;

/// A dtype, the dimensions, and their bytes.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The type of the elements.
    pub dtype: TypeId,
    /// Its name, for messages.
    pub type_name: &'static str,
    /// The dimensions, outermost first.
    pub dims: &'a [usize],
    /// The size of all elements in bytes.
    pub bytes: usize,
    /// The line of the program that makes the request, if it is known.
    pub site: Option<&'static Location<'static>>,
}
