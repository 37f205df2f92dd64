//! The values that a call takes as a limit, and the limit of the process.

use gpucache_engine::device::Memory;
use gpucache_engine::{Limit, Result};

/// A value that can be passed as a limit: bytes as a `u64`, a [`Limit`], or a text (see [`Limit`] for its forms).
///
/// ```
/// use gpucache::{Limit, Scope, device::{IntoLimit, Virtual}, prelude::*};
///
/// fn bounded(limit: impl IntoLimit) -> gpucache::Result<Virtual> {
///     let device = Virtual::new(80 << 30);
///     device.set_limit(limit)?;
///     Ok(device)
/// }
///
/// assert_eq!(bounded(20 << 30)?.memory().limit, Some(20 << 30));
/// assert_eq!(bounded("20GiB")?.memory().limit, Some(20 << 30));
/// assert_eq!(bounded(Limit::share(0.5))?.memory().limit, Some(40 << 30));
/// assert!(bounded("a lot").unwrap_err().to_string().contains("20GiB")); // the accepted forms
/// # Ok::<(), gpucache::Error>(())
/// ```
pub trait IntoLimit {
    /// The limit.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) for a text that is no limit.
    ///
    /// ```
    /// use gpucache::{Limit, device::IntoLimit};
    ///
    /// assert_eq!("512MiB".into_limit()?, Limit::hard(512 << 20));
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn into_limit(self) -> Result<Limit>;
}

impl IntoLimit for Limit {
    fn into_limit(self) -> Result<Limit> {
        Ok(self)
    }
}

impl IntoLimit for u64 {
    fn into_limit(self) -> Result<Limit> {
        Ok(Limit::hard(self))
    }
}

impl IntoLimit for &str {
    fn into_limit(self) -> Result<Limit> {
        self.parse()
    }
}

impl IntoLimit for &String {
    fn into_limit(self) -> Result<Limit> {
        self.parse()
    }
}

/// Limits the memory that this process reserves through this crate on all devices together, hosts included. [`Limit::NONE`]
/// removes the limit.
///
/// The limit counts beside the limits of devices. An allocation beyond it gets idle memory, also of other devices, or fails with an
/// error that names the limit ([`Bound::Process`](crate::error::Bound::Process)). Idle memory beyond the limit goes back at once.
///
/// # Errors
/// [`is_unavailable`](crate::Error::is_unavailable) for a text that is no limit, for a share, because it names no device, and for a
/// soft limit.
///
/// ```
/// use gpucache::{Limit, device::{Virtual, set_process_limit}, error::Bound, prelude::*};
///
/// let (first, second) = (Virtual::new(128 << 40), Virtual::new(128 << 40)); // 128 TiB each
/// set_process_limit("200TiB")?;
/// let array = first.zeros::<u8>(120 << 40)?;
/// let error = second.zeros::<u8>(120 << 40).unwrap_err();
/// assert_eq!(error.shortage().unwrap().bound, Bound::Process);
/// # set_process_limit(Limit::NONE)?;
/// # drop(array);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn set_process_limit(limit: impl IntoLimit) -> Result<()> {
    Memory::set_process_limit(limit.into_limit()?)
}
