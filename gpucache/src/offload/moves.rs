//! [`OffloadStats`]: the counts of what moved between a device and the host.

use std::fmt;
use std::time::Duration;

use super::speed::Speed;
use gpucache_engine::base::amounts::{Bytes, Combine, Count, SINCE, combine};
use gpucache_engine::base::sync::{Mutex, MutexGuard, lock};

/// How arrays moved between a device and host memory so far: all arrays of a device, or those in the entries of a scope.
///
/// ```
/// use gpucache::{prelude::*, stats, offload::{Placed, Placement}};
///
/// let device = Host::new_stream()?;
/// let weights = Placed::new(device.zeros::<f32>(1 << 20)?)?;
/// weights.set_placement(Placement::Host)?; // leaves
/// drop(weights.fetch()?); // comes and leaves again, without another copy, since nobody wrote it
/// let stats = device.stats().offload;
/// assert_eq!((stats.bytes_out, stats.bytes_in, stats.evictions), (4 << 20, 4 << 20, 2));
/// println!("{stats}");
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct OffloadStats {
    /// Bytes copied to the device.
    pub bytes_in: u64,
    /// Bytes copied to the host.
    pub bytes_out: u64,
    /// How often an array left the device.
    pub evictions: u64,
    /// Bytes copied within the device, so that free memory became contiguous.
    pub shifted_bytes: u64,
    /// How often a fetch had to bring an array from the host.
    pub demanded: u64,
    /// The bytes of those arrays.
    pub bytes_demanded: u64,
    /// How often an array was brought ahead of its fetch (prefetch).
    pub prefetched: u64,
    /// How long streams did nothing but wait for moves: for a copy, or for a thread that makes the move and itself waits for memory.
    /// The time is measured on the streams, from the end of the work before the move to the beginning of the work after it. A move
    /// that runs beside other work adds nothing. Waits that are not over yet do not count. The time is 0 on a device whose
    /// [`Backend::mark`](crate::device::backend::Backend::mark) reports no time.
    ///
    /// Of the entries in a known order, gpucache times the first two with the same moves, then one in 16, and from the 49th on one in 64.
    /// A timed entry counts for all entries since the previous timed one.
    pub waited: Duration,
    /// How long the copies took, in the same entries.
    pub copying: Duration,
    /// Fetches that were not the expected ones. gpucache then records the rest of the entry again. An entry that ends before all
    /// expected fetches counts as one.
    pub mispredictions: u64,
    /// The time spent on computing schedules.
    pub layout_time: Duration,
    /// Bytes of placed arrays on the device now; 0 for a scope.
    pub resident_bytes: u64,
    /// Reserved bytes of host memory; 0 for a scope.
    pub host_bytes: u64,
    /// The part of those bytes that could not be pinned. A thread that copies such memory waits for the copy.
    pub pageable_bytes: u64,
}

impl OffloadStats {
    /// The counts since an earlier reading, for example for the last steps of a training. Bytes on the device and of host memory are the
    /// values of this reading.
    ///
    /// ```
    /// use gpucache::{prelude::*, stats, offload::{Placed, Placement}};
    ///
    /// let device = Host::new_stream()?;
    /// let weights = Placed::new(device.zeros::<f32>(1 << 20)?)?;
    /// weights.set_placement(Placement::Host)?;
    /// let before = device.stats().offload;
    /// drop(weights.fetch()?);
    /// let since = device.stats().offload.since(&before);
    /// assert_eq!((since.bytes_out, since.bytes_in, since.evictions), (0, 4 << 20, 1));
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn since(&self, earlier: &OffloadStats) -> OffloadStats {
        let mut since = *self;
        since.combine(earlier, SINCE);
        since
    }

    /// The share of the copies' time that no stream waited for, from 0 to 1; `None` if no copy was timed.
    ///
    /// ```
    /// use gpucache::{prelude::*, stats, offload::{Placed, Placement}};
    ///
    /// let device = Host::new_stream()?;
    /// let weights = Placed::new(device.zeros::<f32>(1 << 20)?)?;
    /// assert!(device.stats().offload.hidden_share().is_none());
    /// weights.set_placement(Placement::Host)?;
    /// drop(weights.fetch()?);
    /// device.synchronize()?;
    /// let share = device.stats().offload.hidden_share().unwrap();
    /// assert!((0.0..=1.0).contains(&share));
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn hidden_share(&self) -> Option<f64> {
        let copying = self.copying.as_secs_f64();
        (copying > 0.0).then(|| (1.0 - self.waited.as_secs_f64() / copying).clamp(0.0, 1.0))
    }
}

combine! {
    OffloadStats:
        bytes_in bytes_out evictions shifted_bytes demanded bytes_demanded prefetched mispredictions waited copying layout_time;
        resident_bytes host_bytes pageable_bytes
}

impl fmt::Display for OffloadStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in, {} out; ", Bytes(self.bytes_in), Bytes(self.bytes_out))?;
        let evictions = Count(self.evictions, "eviction", "evictions");
        write!(f, "{evictions}; {} prefetched, {} fetched on demand; ", self.prefetched, self.demanded)?;
        write!(f, "{:.1?} waited for copies", self.waited)?;
        if let Some(share) = self.hidden_share() {
            write!(f, " of {:.1?}, {:.0}% hidden", self.copying, 100.0 * share)?;
        }
        let mispredictions = Count(self.mispredictions, "misprediction", "mispredictions");
        write!(f, "; {mispredictions}, {:.1?} to compute moves", self.layout_time)?;
        if self.resident_bytes > 0 || self.host_bytes > 0 {
            write!(
                f,
                "; {} on the device, {} of the host reserved",
                Bytes(self.resident_bytes),
                Bytes(self.host_bytes)
            )?;
        }
        let pageable = Some(Bytes(self.pageable_bytes)).filter(|_| self.pageable_bytes > 0);
        pageable.map_or(Ok(()), |bytes| write!(f, ", {bytes} of that not pinned"))
    }
}

/// The counts of a device or of a scope.
#[derive(Debug, Default)]
pub(super) struct Moves {
    stats: Mutex<OffloadStats>,
    /// The timed copies; empty for a scope.
    speed: Mutex<Speed>,
}

impl Moves {
    /// The counts, without the bytes of host memory.
    pub(super) fn read(&self) -> OffloadStats {
        *lock(&self.stats)
    }

    /// Changes a count.
    pub(super) fn count(&self, count: impl FnOnce(&mut OffloadStats)) {
        count(&mut lock(&self.stats));
    }

    pub(super) fn speed(&self) -> MutexGuard<'_, Speed> {
        lock(&self.speed)
    }
}
