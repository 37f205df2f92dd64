//! What is asked for where memory is short, and how it is asked for.

use super::reclaim::Holder;
use crate::base::error::Result;
use crate::device::Stream;

/// Who asks for memory, and how.
pub(crate) trait Ask {
    type Memory;

    /// Makes the call. If it `insists`, other streams' memory will do, behind their work.
    fn ask(&self, insists: bool) -> Result<Self::Memory>;

    /// Makes the call with what is free now, where pages move for it, as few as do. `None` if that is not enough.
    fn ask_for_free(&self) -> Result<Option<Self::Memory>>;
}

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) bytes: u64,
    pub(crate) dims: &'a [usize],
    /// The innermost scope's memory on this thread.
    pub(crate) holder: Option<&'static dyn Holder>,
}
