//! Work of which this crate was not told on which stream it is.

use std::fmt::Debug;

use crate::base::error::Result;

/// Asks whether work is done that was marked; it does not wait.
pub(crate) type IsDone = Box<dyn Fn() -> Result<bool> + Send>;

/// Work on a device's memory that somebody else launched by a bare address, on a stream of which this crate does not know.
pub(crate) trait UnknownWork: Debug + Send + Sync {
    /// Somebody gets an address, and does not tell on which stream it is used.
    fn note(&self);

    /// Whether there may be such work. Once this is true it stays true. It is true before an array is dropped that such work uses.
    fn is_possible(&self) -> bool;

    /// Marks the end of all work that the device was given so far, by whomever. `None` if that cannot be asked now, as while a
    /// graph is captured. No lock is held meanwhile.
    ///
    /// # Errors
    /// What the device answered.
    fn mark(&self) -> Result<Option<IsDone>>;
}
