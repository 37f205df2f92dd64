//! The memory that is reserved from one device, and its limits. The limits are checked before the device is asked.
//!
//! Invariant: reserved memory never exceeds the limit that was set when it was taken, even if several threads take memory at once. Bytes
//! are counted in before the call that takes them, and counted out again if the call fails.

use std::sync::atomic::Ordering::Relaxed;

use super::meter::Meter;
use super::process;
use crate::base::amounts::Bytes;
use crate::base::error::{Error, Result};
use crate::base::limit::{FORMS, Limit};
use crate::base::per_thread::{THREAD, with_flag};
use crate::base::shortage::Bound;

/// Makes a call that takes memory, and enforces soft limits like hard ones. If a soft limit stops the call, the caller can reclaim memory
/// and try again.
pub(crate) fn softly<R>(call: impl FnOnce() -> R) -> R {
    with_flag(|thread| &thread.is_soft, call)
}

impl Meter {
    /// Counts in bytes that are about to be taken.
    ///
    /// # Errors
    /// [`is_out_of_memory`](Error::is_out_of_memory) if a limit would be exceeded; nothing has changed then.
    pub(super) fn enter(&self, bytes: u64) -> Result<()> {
        let limit = self.most();
        let within = |held: u64| held.checked_add(bytes).filter(|&sum| sum <= limit);
        let enter = || self.part.held.fetch_update(Relaxed, Relaxed, within).map(|_| ());
        process::count_in(bytes, || enter().map_err(|held| self.over(limit, held, bytes)))
    }

    /// Counts out bytes that the device refused, for this reason. Meanwhile the limit may have refused another request because of these
    /// bytes, so `undone` counts this.
    pub(super) fn undo(&self, bytes: u64, error: &Error) {
        self.leave(bytes);
        if error.is_shortage() {
            // It refused so many bytes together. Fewer may fit.
            self.ceiling.fetch_min(self.held().saturating_add(bytes.saturating_sub(1)), Relaxed);
        }
        self.part.undone.fetch_add(1, Relaxed);
    }

    /// The limit in bytes that holds for the calling thread now.
    pub(crate) fn most(&self) -> u64 {
        let limit = self.limit();
        if THREAD.with(|thread| thread.is_soft.get()) { limit.min(self.soft_limit()) } else { limit }
    }

    /// How many more bytes can be reserved, by the limits and by the device's last refusal.
    pub(super) fn room(&self) -> u64 {
        self.room_of_device().min(process::room())
    }

    /// The same, without the limit of the process.
    pub(crate) fn room_of_device(&self) -> u64 {
        self.most().min(self.ceiling.load(Relaxed)).saturating_sub(self.held())
    }

    /// The error for a request of more bytes than the whole limit.
    pub(crate) fn beyond(&self, bytes: u64) -> Option<Error> {
        let limit = self.limit();
        (bytes > limit).then(|| self.over(limit, self.held(), bytes))
    }

    /// How often the device refused memory that the limit had allowed. Meanwhile the limit may have refused another thread because of it.
    pub(crate) fn undone(&self) -> u64 {
        self.part.undone.load(Relaxed)
    }

    /// Counts out bytes that the device has no more, or never provided.
    pub(super) fn leave(&self, bytes: u64) {
        self.part.held.fetch_sub(bytes, Relaxed);
    }

    /// The bytes that are reserved now, or that the device was asked for. [`Meter::read`] returns only the former.
    pub fn held(&self) -> u64 {
        self.part.held.load(Relaxed)
    }

    /// The limit of reserved bytes; `u64::MAX` if there is none.
    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Sets the limit of reserved bytes; `u64::MAX` removes it.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }

    /// The soft limit of reserved bytes; `u64::MAX` if there is none.
    pub fn soft_limit(&self) -> u64 {
        self.soft_limit.load(Relaxed)
    }

    /// Sets the soft limit: from now on, idle memory is freed before more bytes than this are reserved. `u64::MAX` removes it.
    pub(crate) fn set_soft_limit(&self, bytes: u64) {
        self.soft_limit.store(bytes, Relaxed);
    }

    #[cold]
    fn over(&self, limit: u64, held: u64, bytes: u64) -> Error {
        let (device, place, bound) = match self.is_host_side {
            true => ("the host memory of placed arrays", "for placed arrays on the host", Bound::Host),
            false => ("the device", "on the device", Bound::Limit),
        };
        let detail = format!("{} of at most {} are reserved {place}", Bytes(held), Bytes(limit));
        let error = Error::out_of_memory(device, usize::try_from(bytes).unwrap_or(usize::MAX), detail);
        error.of_limit(limit, bound)
    }
}

/// The environment variable that limits each device.
pub(super) const VARIABLE: &str = "GPUCACHE_LIMIT";

/// The limit of each device in the environment.
///
/// # Errors
/// [`is_unavailable`](Error::is_unavailable) for a text that is no limit.
pub(super) fn from_environment() -> Result<Option<Limit>> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let text = text.to_string_lossy();
    match Limit::parse(&text) {
        Ok(limit) => Ok(Some(limit)),
        // As with an empty name of a trace.
        Err(_) if text.trim().is_empty() => Ok(None),
        Err(why) => Err(refused(format!("{text:?}: {why}"), FORMS)),
    }
}

/// The error of a limit in the environment that is a share, on a device that does not tell its size.
pub(super) fn of_unknown_size(limit: Limit) -> Error {
    let detail = format!("`{limit}` is a share, and this device does not tell how much memory it has");
    refused(detail, "set it to a number of bytes, as `20GiB`")
}

fn refused(detail: String, remedy: &'static str) -> Error {
    Error::unavailable(format_args!("the limit in {VARIABLE}"), detail, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_counted_in_beyond_the_limit() {
        let meter = Meter::of(0, 0);
        meter.set_limit(100);
        assert!(meter.enter(60).is_ok() && meter.enter(41).is_err_and(|error| error.is_out_of_memory()));
        let text = meter.enter(41).unwrap_err().to_string();
        assert!(
            text.starts_with("41 bytes do not fit: 60 bytes of at most 100 bytes are reserved on the device: "),
            "{text}"
        );
        assert!(meter.enter(u64::MAX).is_err());
        meter.undo(60, &Error::device_failure("the device", "an allocation", "it is lost"));
        assert_eq!((meter.held(), meter.read().2, meter.undone(), meter.room()), (0, 0, 1, 100));
    }

    #[test]
    fn a_soft_limit_is_one_to_calls_that_are_made_so() {
        let meter = Meter::of(0, 0);
        meter.set_soft_limit(100);
        assert!(softly(|| meter.enter(101)).is_err_and(|error| error.is_of_limit()));
        assert_eq!((softly(|| meter.room()), meter.room()), (100, u64::MAX));
        assert!(meter.enter(101).is_ok());
        assert_eq!((softly(|| meter.room()), meter.held()), (0, 101));
    }

    #[test]
    fn a_device_that_refuses_bytes_has_no_room_for_them_until_something_goes_back_or_it_has_more() {
        let meter = Meter::of(0, 0);
        let take = |bytes| {
            assert!(meter.enter(bytes).is_ok());
            meter.took(bytes, |_| ());
        };
        take(70);
        assert!(meter.enter(10).is_ok());
        meter.undo(10, &Error::out_of_memory("the device", 10, "no memory is left"));
        assert_eq!(meter.room(), 9, "10 bytes do not fit, and perhaps fewer do");
        meter.gave(30, |_| ());
        assert_eq!(meter.room(), 39);
        take(30);
        assert!(meter.enter(20).is_ok());
        meter.undo(20, &Error::out_of_memory("the device", 20, "no memory is left"));
        assert_eq!(meter.room(), 9, "the refusal of fewer bytes says more");
        take(10);
        assert!(meter.room() > 1 << 40, "the device has more than it had");
    }
}
