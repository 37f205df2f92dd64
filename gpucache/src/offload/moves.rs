//! What moved between a device and the host, counted.

use std::fmt;
use std::sync::PoisonError;
use std::time::Duration;

use super::speed::Speed;
use gpucache_engine::base::amounts::{Bytes, Count, add};
use gpucache_engine::base::sync::{Mutex, MutexGuard};

/// What arrays that may move to host memory did so far, on a device or in the entries of a scope.
///
/// ```
/// use gpucache::{prelude::*, stats, offload::{Placed, Placement}};
///
/// let device = Host::new_stream()?;
/// let weights = Placed::new(device.zeros::<f32>(1 << 20)?)?;
/// weights.set_placement(Placement::Host)?; // leaves
/// drop(weights.fetch()?); // comes, and leaves again, without another copy as nobody wrote it
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
    /// Bytes copied on the device, so that free memory lay side by side.
    pub shifted_bytes: u64,
    /// How often an array had to come when it was asked for.
    pub demanded: u64,
    /// Bytes of those.
    pub bytes_demanded: u64,
    /// How often an array came before it was asked for.
    pub prefetched: u64,
    /// For how long streams had nothing to do but wait for moves: for a copy, or for a thread that makes the move, and waits for
    /// memory meanwhile. The time is taken on the streams, between what they did before the move and what they may do next, so that
    /// a move beside work counts nothing. What is not over yet is not in it, nor what a device does whose
    /// [`Backend::mark`](crate::device::backend::Backend::mark) tells no time.
    ///
    /// Of the entries that go by a known order the first two by the same moves are timed, and then one of sixteen. Each of these counts
    /// for the entries since the one that was timed before it.
    pub waited: Duration,
    /// How long the copies took, counted in the same entries.
    pub copying: Duration,
    /// Uses that were not the expected ones. What follows in the same entry is written down anew; an entry that ends before all
    /// that was expected has one.
    pub mispredictions: u64,
    /// Time spent on computing schedules.
    pub layout_time: Duration,
    /// Bytes on the device now; none of a scope.
    pub resident_bytes: u64,
    /// Bytes held of the host's memory; none of a scope.
    pub host_bytes: u64,
    /// Those of them that could not be pinned: while such are copied, the thread that asked for it waits.
    pub pageable_bytes: u64,
}

impl OffloadStats {
    /// What was done since an earlier reading, as in the last steps of a training. What is on the device, and held of the host, is that of
    /// this reading.
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
        since.combine(earlier, u64::saturating_sub);
        since
    }

    /// Adds what was done, and what is held.
    pub(crate) fn add(&mut self, more: &OffloadStats) {
        self.combine(more, u64::saturating_add);
        add(&mut self.resident_bytes, more.resident_bytes);
        add(&mut self.host_bytes, more.host_bytes);
        add(&mut self.pageable_bytes, more.pageable_bytes);
    }

    /// Combines what was done with what another reading says.
    fn combine(&mut self, other: &OffloadStats, with: fn(u64, u64) -> u64) {
        let mut other = *other;
        for (own, other) in self.counts().into_iter().zip(other.counts()) {
            *own = with(*own, *other);
        }
        let nanoseconds = |time: &Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        for (own, other) in self.times().into_iter().zip(other.times()) {
            *own = Duration::from_nanos(with(nanoseconds(own), nanoseconds(other)));
        }
    }

    fn counts(&mut self) -> [&mut u64; 8] {
        let OffloadStats {
            bytes_in,
            bytes_out,
            evictions,
            shifted_bytes,
            demanded,
            bytes_demanded,
            prefetched,
            mispredictions,
            ..
        } = self;
        [bytes_in, bytes_out, evictions, shifted_bytes, demanded, bytes_demanded, prefetched, mispredictions]
    }

    fn times(&mut self) -> [&mut Duration; 3] {
        [&mut self.waited, &mut self.copying, &mut self.layout_time]
    }

    /// The share of the time of all copies that no stream waited for, from 0 to 1; `None` where none was timed.
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

impl fmt::Display for OffloadStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in, {} out; ", Bytes(self.bytes_in), Bytes(self.bytes_out))?;
        let evictions = Count(self.evictions, "eviction", "evictions");
        write!(f, "{evictions}; {} came ahead, {} when asked for; ", self.prefetched, self.demanded)?;
        write!(f, "{:.1?} waited for copies", self.waited)?;
        if let Some(share) = self.hidden_share() {
            write!(f, " of {:.1?}, {:.0}% hidden", self.copying, 100.0 * share)?;
        }
        let mispredictions = Count(self.mispredictions, "misprediction", "mispredictions");
        write!(f, "; {mispredictions}, {:.1?} of layout", self.layout_time)?;
        if self.resident_bytes > 0 || self.host_bytes > 0 {
            write!(f, "; {} on the device, {} of the host held", Bytes(self.resident_bytes), Bytes(self.host_bytes))?;
        }
        let pageable = Some(Bytes(self.pageable_bytes)).filter(|_| self.pageable_bytes > 0);
        pageable.map_or(Ok(()), |bytes| write!(f, ", {bytes} of that not pinned"))
    }
}

/// What is counted for a device or for a scope.
#[derive(Debug, Default)]
pub(super) struct Moves {
    stats: Mutex<OffloadStats>,
    /// The copies that were timed; none of a scope.
    speed: Mutex<Speed>,
}

impl Moves {
    /// Without what is held of the host's memory.
    pub(super) fn read(&self) -> OffloadStats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a count.
    pub(super) fn count(&self, count: impl FnOnce(&mut OffloadStats)) {
        count(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn speed(&self) -> MutexGuard<'_, Speed> {
        self.speed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
