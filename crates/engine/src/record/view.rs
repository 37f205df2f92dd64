//! The object of a front end for a block's memory.

use std::any::Any;

use crate::base::error::Result;

/// A front end's own object over a block's memory. It knows of uses on streams for which the engine has no handle.
pub trait View: Any + Send + Sync {
    /// Whether the memory can leave the block with the view, for another owner.
    fn can_leave(&self) -> bool {
        true
    }

    /// Makes later work of the block's own stream wait for the writes of others, as far as the view knows of them.
    ///
    /// # Errors
    /// A failure to order the streams. The memory must then not be used.
    fn follow_writes(&self) -> Result<()>;

    /// Like [`follow_writes`](View::follow_writes), but waits for all uses by others. Nothing that the view lent is borrowed any more.
    ///
    /// # Errors
    /// As for [`follow_writes`](View::follow_writes).
    fn follow_uses(&mut self) -> Result<()>;
}
