//! What a front end keeps with a block's memory.

use std::any::Any;

use crate::base::error::Result;

/// A front end's own object over a block's memory, which knows of uses by streams that the engine has no handle of.
pub trait View: Any + Send + Sync {
    /// Orders later work of the block's own stream behind what others wrote, as far as the view knows of it.
    ///
    /// # Errors
    /// A failure to order; then nothing may be done with the memory.
    fn follow_writes(&self) -> Result<()>;

    /// As [`follow_writes`](View::follow_writes), behind all that others do with it. Nothing that the view lent is borrowed.
    ///
    /// # Errors
    /// As for [`follow_writes`](View::follow_writes).
    fn follow_uses(&mut self) -> Result<()>;
}
