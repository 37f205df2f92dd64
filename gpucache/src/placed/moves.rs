//! What moved between a device and the host, counted.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::base::amounts::{Bytes, Count};

/// What arrays that may rest on the host did so far on a device: of [`placed_stats`](super::placed_stats).
///
/// ```
/// use gpucache::{Placed, Placement, placed_stats, prelude::*};
///
/// let device = Host::new_stream()?;
/// let weights = Placed::new(device.zeros::<f32>(1 << 20)?)?;
/// weights.set_placement(Placement::Host)?; // leaves
/// drop(weights.fetch()?); // comes, and leaves again, without another copy as nobody wrote it
/// let stats = placed_stats(&device);
/// assert_eq!((stats.bytes_out, stats.bytes_in, stats.evictions), (4 << 20, 4 << 20, 2));
/// println!("{stats}");
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PlacedStats {
    /// Bytes copied to the device.
    pub bytes_in: u64,
    /// Bytes copied to the host.
    pub bytes_out: u64,
    /// How often an array left the device.
    pub evictions: u64,
    /// How often an array had to come when it was asked for.
    pub demanded: u64,
    /// Bytes of those.
    pub bytes_demanded: u64,
    /// How often an array came before it was asked for.
    pub prefetched: u64,
    /// Entries whose order of uses was not the expected one.
    pub mispredictions: u64,
    /// Bytes on the device now.
    pub resident_bytes: u64,
    /// Bytes held of the host's memory.
    pub host_bytes: u64,
    /// Those of them that could not be pinned: while such are copied, the thread that asked for it waits.
    pub pageable_bytes: u64,
}

impl fmt::Display for PlacedStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in, {} out; ", Bytes(self.bytes_in), Bytes(self.bytes_out))?;
        let evictions = Count(self.evictions, "eviction", "evictions");
        write!(f, "{evictions}; {} came ahead, {} when asked for; ", self.prefetched, self.demanded)?;
        write!(f, "{} on the device, {} of the host held", Bytes(self.resident_bytes), Bytes(self.host_bytes))?;
        let pageable = Some(Bytes(self.pageable_bytes)).filter(|_| self.pageable_bytes > 0);
        pageable.map_or(Ok(()), |bytes| write!(f, ", {bytes} of that not pinned"))
    }
}

/// The counters behind [`PlacedStats`].
#[derive(Debug, Default)]
pub(super) struct Moves {
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) demanded: AtomicU64,
    pub(super) bytes_demanded: AtomicU64,
    pub(super) prefetched: AtomicU64,
    pub(super) mispredictions: AtomicU64,
    pub(super) resident: AtomicU64,
    /// How much may be on the device before more is told to be needed.
    pub(super) most_told: AtomicU64,
}

impl Moves {
    /// Without what is held of the host's memory.
    pub(super) fn read(&self) -> PlacedStats {
        let of = |count: &AtomicU64| count.load(Relaxed);
        PlacedStats {
            bytes_in: of(&self.bytes_in),
            bytes_out: of(&self.bytes_out),
            evictions: of(&self.evictions),
            demanded: of(&self.demanded),
            bytes_demanded: of(&self.bytes_demanded),
            prefetched: of(&self.prefetched),
            mispredictions: of(&self.mispredictions),
            resident_bytes: of(&self.resident),
            host_bytes: 0,
            pageable_bytes: 0,
        }
    }
}
