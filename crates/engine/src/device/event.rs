//! Events: points in the work of a stream that other streams can wait for.
#![allow(unsafe_code)]

use std::any::Any;
use std::fmt;

use crate::base::error::Result;

/// A point in the work of a stream. [`Backend::new_event`](super::Backend::new_event) makes an event, and
/// [`Backend::record`](super::Backend::record) sets it, any number of times.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
/// use gpucache::device::backend::Event;
///
/// /// Complete once as many pieces of work are done as there were when it was recorded.
/// #[derive(Debug)]
/// struct Place {
///     done: &'static AtomicU64,
///     until: AtomicU64,
/// }
///
/// // SAFETY: a piece of work is counted once it is done, so `done` reaches `until` only after all that work.
/// unsafe impl Event for Place {
///     fn is_complete(&self) -> gpucache::Result<bool> {
///         Ok(self.done.load(SeqCst) >= self.until.load(SeqCst))
///     }
/// }
/// ```
///
/// # Safety
/// Once [`is_complete`](Event::is_complete) returns `true`, all work before the event's last recording must be done: the memory that this
/// work used is then handed out again.
pub unsafe trait Event: Any + fmt::Debug + Send + Sync {
    /// Whether all work before the event's last recording is done. Does not wait.
    ///
    /// # Errors
    /// An error of the device, or of that work.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::backend::Backend, plain::Plain}; // as in the example of `Backend`
    ///
    /// let event = Plain.new_event()?; // this backend's work is done when a call returns
    /// assert!(event.is_complete()?);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn is_complete(&self) -> Result<bool>;
}

/// The event of a stream whose work is done when a call returns.
#[derive(Debug)]
pub(super) struct Complete;

// SAFETY: only streams whose work is done when a call returns use this event, so no work before its recording is still running.
unsafe impl Event for Complete {
    fn is_complete(&self) -> Result<bool> {
        Ok(true)
    }
}
