//! Events: marks in the work of a stream.
#![allow(unsafe_code)]

use std::any::Any;
use std::fmt;

use crate::base::error::Result;

/// A mark in the work of a stream, made by [`Backend::new_event`](super::Backend::new_event) and set by
/// [`Backend::record`](super::Backend::record), again and again.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
/// use gpucache::device::Event;
///
/// /// Complete once as many pieces of work are done as there were when it was recorded.
/// #[derive(Debug)]
/// struct Place {
///     done: &'static AtomicU64,
///     until: AtomicU64,
/// }
///
/// // SAFETY: pieces are counted once they are done, so `done` reaches `until` only then.
/// unsafe impl Event for Place {
///     fn is_complete(&self) -> gpucache::Result<bool> {
///         Ok(self.done.load(SeqCst) >= self.until.load(SeqCst))
///     }
/// }
/// ```
///
/// # Safety
/// Once [`is_complete`](Event::is_complete) answered that it is, no work that it was recorded behind last is under way:
/// memory that the work used is handed out again then.
pub unsafe trait Event: Any + fmt::Debug + Send + Sync {
    /// Whether all work is done that it was recorded behind last. Does not wait.
    ///
    /// # Errors
    /// What the device answered, or what that work met.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::Backend, plain::Plain}; // as in the example of `Backend`
    ///
    /// let event = Plain.new_event()?; // of a backend whose work is done when a call returns
    /// assert!(event.is_complete()?);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn is_complete(&self) -> Result<bool>;
}

/// The event of a stream whose work is done when a call returns.
#[derive(Debug)]
pub(super) struct Complete;

// SAFETY: it is the event of streams whose work is done when a call returns, so that nothing it is behind is under way.
unsafe impl Event for Complete {
    fn is_complete(&self) -> Result<bool> {
        Ok(true)
    }
}
