//! Work on unknown streams: this crate was not told which stream it is on.

use std::fmt::Debug;

use crate::base::error::Result;

/// Asks whether the marked work is done. Does not wait.
pub(crate) type IsDone = Box<dyn Fn() -> Result<bool> + Send>;

/// Work on a device's memory that other code launched with a bare address, on a stream that this crate does not know.
pub(crate) trait UnknownWork: Debug + Send + Sync {
    /// Notes that other code gets an address and does not say on which stream it will use it.
    fn note(&self);

    /// Whether there may be such work. Once true, it stays true. If such work uses an array, this is true before the array is dropped.
    fn is_possible(&self) -> bool;

    /// Notes that memory is freed in the order of one stream while work on other streams, of which this crate is not told, may still use it.
    fn note_unordered(&self);

    /// Whether memory may be freed so. Once true, it stays true.
    fn is_unordered(&self) -> bool;

    /// Marks the end of all work that the device has got so far from anybody. `None` if the device cannot be asked now, for example while a
    /// graph is captured. No lock is held during the call.
    ///
    /// # Errors
    /// The answer of the device.
    fn mark(&self) -> Result<Option<IsDone>>;
}
