//! The memory that is reserved from one device, and its limits. The limits are checked before the device is asked.
//!
//! Invariant: reserved memory never exceeds the limit that was set when it was taken, even if several threads take memory at once. Bytes
//! are counted in before the call that takes them, and counted out again if the call fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::process::{self, Part};
use crate::base::error::{Error, Result};
use crate::base::per_thread::{THREAD, with_flag};
use crate::base::shortage::Bound;

/// Bytes reserved from a device, their peak, and their limits.
#[derive(Debug)]
pub(super) struct Quota {
    /// The reserved bytes, as a part of the sum over all devices.
    part: Arc<Part>,
    peak: AtomicU64,
    /// `u64::MAX` if there is no limit.
    limit: AtomicU64,
    /// The same for calls that are made [`softly`].
    soft_limit: AtomicU64,
    /// The device refused to go beyond this many reserved bytes when it was asked last; `u64::MAX` if it never refused. It is less than the
    /// capacity, since the driver and other programs hold memory too. It saves time: a call that fails takes as long as a hundred calls
    /// that succeed.
    ceiling: AtomicU64,
}

/// Makes a call that takes memory, and enforces soft limits like hard ones. If a soft limit stops the call, the caller can reclaim memory
/// and try again.
pub(crate) fn softly<R>(call: impl FnOnce() -> R) -> R {
    with_flag(|thread| &thread.is_soft, call)
}

impl Default for Quota {
    fn default() -> Quota {
        let bound = || AtomicU64::new(u64::MAX);
        let (part, peak) = (Part::of_new_device(), AtomicU64::new(0));
        Quota { part, peak, limit: bound(), soft_limit: bound(), ceiling: bound() }
    }
}

impl Quota {
    /// Counts in bytes that are about to be taken.
    ///
    /// # Errors
    /// [`is_out_of_memory`](Error::is_out_of_memory) if a limit would be exceeded; nothing has changed then.
    pub(super) fn enter(&self, bytes: u64) -> Result<()> {
        let limit = self.most();
        let within = |held: u64| held.checked_add(bytes).filter(|&sum| sum <= limit);
        let enter = || self.part.held.fetch_update(Relaxed, Relaxed, within).map(|_| ());
        process::count_in(bytes, || enter().map_err(|held| over(limit, held, bytes)))
    }

    /// Notes that the device provided the bytes that were counted in.
    pub(super) fn took(&self) {
        let held = self.held();
        self.peak.fetch_max(held, Relaxed);
        self.ceiling.fetch_max(held, Relaxed);
    }

    /// Counts out bytes that the device refused, for this reason. Meanwhile the limit may have refused another request because of these
    /// bytes, so `undone` counts this.
    pub(super) fn undo(&self, bytes: u64, error: &Error) {
        self.leave(bytes);
        if error.is_out_of_memory() {
            self.ceiling.store(self.held(), Relaxed);
        }
        self.part.undone.fetch_add(1, Relaxed);
    }

    /// The limit in bytes that holds for the calling thread now.
    fn most(&self) -> u64 {
        let limit = self.limit();
        if THREAD.with(|thread| thread.is_soft.get()) { limit.min(self.soft_limit()) } else { limit }
    }

    /// How many more bytes can be reserved, by the limits and by the device's last refusal.
    pub(super) fn room(&self) -> u64 {
        let room = self.most().min(self.ceiling.load(Relaxed)).saturating_sub(self.held());
        room.min(process::room())
    }

    /// The error for a request of more bytes than the whole limit.
    pub(super) fn beyond(&self, bytes: u64) -> Option<Error> {
        let limit = self.limit();
        (bytes > limit).then(|| over(limit, self.held(), bytes))
    }

    pub(super) fn undone(&self) -> u64 {
        self.part.undone.load(Relaxed)
    }

    /// Counts out bytes that were returned.
    pub(super) fn leave(&self, bytes: u64) {
        self.part.held.fetch_sub(bytes, Relaxed);
    }

    pub(super) fn held(&self) -> u64 {
        self.part.held.load(Relaxed)
    }

    pub(super) fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    /// Sets the peak to the bytes that are reserved now.
    pub(super) fn reset_peak(&self) {
        self.peak.store(self.held(), Relaxed);
        // Another thread may have reserved and noted more between the two steps.
        self.peak.fetch_max(self.held(), Relaxed);
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    pub(super) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }

    pub(super) fn soft_limit(&self) -> u64 {
        self.soft_limit.load(Relaxed)
    }

    pub(super) fn set_soft_limit(&self, bytes: u64) {
        self.soft_limit.store(bytes, Relaxed);
    }
}

#[cold]
fn over(limit: u64, held: u64, bytes: u64) -> Error {
    let detail = format!("{held} of the {limit} bytes that its limit allows are held");
    let error = Error::out_of_memory("the device", usize::try_from(bytes).unwrap_or(usize::MAX), detail);
    error.of_limit(limit, Bound::Limit)
}

/// The environment variable that limits each device.
pub(super) const VARIABLE: &str = "GPUCACHE_LIMIT";

/// The limit that the environment variable sets for a device with `capacity` bytes, if the capacity is known.
///
/// # Errors
/// [`is_unavailable`](Error::is_unavailable) for a text that is not a limit.
pub(super) fn from_environment(capacity: Option<u64>) -> Result<Option<u64>> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let text = text.to_string_lossy();
    parse(&text, capacity).ok_or_else(|| {
        let remedy = "set it to bytes, as `20GiB`, `500MB` or a plain number, or to a share of the device, as `80%`";
        Error::unavailable(format!("the limit in {VARIABLE}"), format!("it is {text:?}"), remedy)
    })
}

const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

/// Reads bytes from a text: a number with or without a unit, or a share of the capacity. A share is no limit if the capacity is unknown.
/// `None` for any other text.
fn parse(text: &str, capacity: Option<u64>) -> Option<Option<u64>> {
    let text = text.trim();
    if let Some(share) = text.strip_suffix('%') {
        let share = number(share)? / 100.0;
        return Some(capacity.map(|capacity| of_share(share, capacity)));
    }
    let unit = |(name, bytes): (&str, u64)| Some((text.strip_suffix(name)?, bytes));
    let (digits, unit) = UNITS.into_iter().find_map(unit).unwrap_or((text, 1));
    let digits = digits.trim_end();
    // A float cannot represent every whole number of this size exactly.
    let whole = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    Some(Some(match whole {
        Some(bytes) => bytes,
        None => (number(digits)? * unit as f64) as u64,
    }))
}

/// The bytes of a share of `capacity`.
pub(super) fn of_share(share: f64, capacity: u64) -> u64 {
    (capacity as f64 * share) as u64
}

/// Reads a number: digits with or without a decimal point, and no other notation.
fn number(text: &str) -> Option<f64> {
    let text = text.trim_end();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_bytes_with_a_unit_or_a_share() {
        let read = |text| parse(text, Some(1000)).flatten();
        assert_eq!(["20GiB", "1.5 MiB", "500MB", "7"].map(read), [20 << 30, 3 << 19, 500_000_000, 7].map(Some));
        assert_eq!([" 80% ", "12.5%", "9B", "0"].map(read), [800, 125, 9, 0].map(Some));
        assert_eq!(read("18446744073709551615"), Some(u64::MAX));
        assert_eq!(["", "GiB", "20 GiBs", "-1", "1e9", "inf", "NaN%", "20gib", "%"].map(read), [None; 9]);
        let is_text = |text| parse(text, None).is_some();
        assert_eq!((parse("80%", None), is_text("x%"), is_text("20GiB")), (Some(None), false, true));
    }

    #[test]
    fn nothing_is_counted_in_beyond_the_limit() {
        let quota = Quota::default();
        quota.set_limit(100);
        assert!(quota.enter(60).is_ok() && quota.enter(41).is_err_and(|error| error.is_out_of_memory()));
        assert!(quota.enter(u64::MAX).is_err());
        quota.took();
        quota.undo(60, &Error::device_failure("the device", "an allocation", "it is lost"));
        assert_eq!((quota.held(), quota.peak(), quota.undone(), quota.room()), (0, 60, 1, 100));
    }

    #[test]
    fn a_soft_limit_is_one_to_calls_that_are_made_so() {
        let quota = Quota::default();
        quota.set_soft_limit(100);
        assert!(softly(|| quota.enter(101)).is_err_and(|error| error.is_of_limit()));
        assert_eq!((softly(|| quota.room()), quota.room()), (100, u64::MAX));
        assert!(quota.enter(101).is_ok());
        assert_eq!((softly(|| quota.room()), quota.held()), (0, 101));
    }

    #[test]
    fn a_device_that_refuses_has_no_room_until_something_goes_back_or_it_has_more() {
        let quota = Quota::default();
        let take = |bytes| {
            assert!(quota.enter(bytes).is_ok());
            quota.took();
        };
        take(70);
        assert!(quota.enter(10).is_ok());
        quota.undo(10, &Error::out_of_memory("the device", 10, "no memory is left"));
        assert_eq!(quota.room(), 0);
        quota.leave(30);
        assert_eq!(quota.room(), 30);
        take(50);
        quota.leave(40);
        assert_eq!(quota.room(), 40);
    }
}
