//! Marks: points in the work of a stream whose time is known.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::error::Result;
use crate::base::sync::OnceLock;

/// A point in the work of a stream, made by [`Backend::mark`](super::Backend::mark). It records the time at which all work before it was
/// done.
///
/// ```
/// use std::any::Any;
/// use std::time::{Duration, Instant};
/// use gpucache::device::backend::Mark;
///
/// /// For a device whose work is done when a call returns.
/// #[derive(Debug)]
/// struct Now(Instant);
///
/// impl Mark for Now {
///     fn since(&self, earlier: &dyn Mark) -> gpucache::Result<Option<Duration>> {
///         let earlier: &dyn Any = earlier;
///         Ok(earlier.downcast_ref::<Now>().map(|earlier| self.0 - earlier.0))
///     }
/// }
///
/// let (first, second) = (Now(Instant::now()), Now(Instant::now()));
/// assert!(second.since(&first)?.is_some());
/// # Ok::<(), gpucache::Error>(())
/// ```
pub trait Mark: Any + fmt::Debug + Send + Sync {
    /// The time between two marks of the same stream: from when `earlier` was reached until this one was. `None` while the stream has not
    /// reached both. Does not wait.
    ///
    /// # Errors
    /// An error of the device, or of the work.
    ///
    /// ```
    /// # mod plain { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plain.rs")); }
    /// use {gpucache::device::backend::Backend, plain::Plain}; // as in the example of `Backend`
    /// if let (Some(first), Some(second)) = (Plain.mark()?, Plain.mark()?) {
    ///     println!("{:?} of work", second.since(&*first)?);
    /// }
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn since(&self, earlier: &dyn Mark) -> Result<Option<Duration>>;
}

/// The time at which the host's work reached the mark.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment(Arc<OnceLock<Instant>>);

impl Moment {
    /// Notes that the work has reached the mark now.
    pub(super) fn reach(&self) {
        self.0.get_or_init(Instant::now);
    }
}

impl Mark for Moment {
    fn since(&self, earlier: &dyn Mark) -> Result<Option<Duration>> {
        let earlier: &dyn Any = earlier;
        let earlier = earlier.downcast_ref().and_then(|Moment(earlier)| earlier.get());
        Ok(self.0.get().zip(earlier).map(|(now, earlier)| now.saturating_duration_since(*earlier)))
    }
}
