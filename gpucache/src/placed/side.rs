//! The host's side of a device, asked from outside: what moved, and how much may be held there.

use super::accounts;
use super::moves::PlacedStats;
use super::yards;
use crate::device::{Device, Memory};

/// What arrays that may rest on the host did so far on a device.
///
/// ```
/// use gpucache::{device::Virtual, placed_stats};
///
/// assert_eq!(placed_stats(&Virtual::new(1 << 30)).evictions, 0);
/// ```
pub fn placed_stats(device: &impl Device) -> PlacedStats {
    placed_stats_of_memory(device.stream_handle().memory())
}

/// The same of a device's memory.
pub(crate) fn placed_stats_of_memory(memory: &Memory) -> PlacedStats {
    // What was held stays so when no array is left, until it is trimmed.
    let held = || memory.known_host_side().map_or(0, |host| host.meter().held());
    PlacedStats { host_bytes: held(), ..yards::stats(memory) }
}

/// What arrays that may rest on the host did so far in the entries of the scope `name`, over all threads and devices; `None` if none
/// was placed or moved there, or the name is forgotten. A move counts for the outermost scope that its thread is in.
///
/// ```
/// use gpucache::{Placed, Placement, cache_scope, placed_stats_of, prelude::*};
///
/// let weights = Placed::new(Host::new_stream()?.zeros::<f32>(1 << 20)?)?;
/// weights.set_placement(Placement::Host)?; // of no scope
/// cache_scope!(warm_up, { drop(weights.fetch()?) });
/// let stats = placed_stats_of("warm_up").unwrap();
/// assert_eq!((stats.bytes_in, stats.bytes_out, stats.evictions), (4 << 20, 0, 1));
/// assert!(placed_stats_of("never entered").is_none());
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn placed_stats_of(name: impl AsRef<str>) -> Option<PlacedStats> {
    yards::settle_all();
    accounts::find(name.as_ref()).map(|moves| moves.read())
}

/// Lets arrays that leave a device take at most so many bytes of the host's memory; `u64::MAX` ends that.
///
/// The limit is hard. An array for which there is no more room on the host stays on the device, and what needs its place there is an
/// error ([`is_out_of_memory`](crate::Error::is_out_of_memory)). Where more is held already, what is idle goes back at once. The
/// host's memory is taken in chunks of 2 MiB at least, and an array that was away keeps its place there, so that it need not be
/// copied again; [`trim`](crate::trim) gives back what is idle. [`limit`](crate::limit) and `GPUCACHE_LIMIT` are of the device alone; [`limit_process`](crate::limit_process) counts
/// the host's side too.
///
/// ```
/// use gpucache::{Placed, Placement, limit_host, placed_stats, prelude::*};
///
/// let device = Host::new_stream()?;
/// limit_host(&device, 64 << 20);
/// let (first, second) = (Placed::<u8, _>::zeros(&device, 48 << 20)?, Placed::<u8, _>::zeros(&device, 48 << 20)?);
/// first.set_placement(Placement::Host)?;
/// assert!(second.set_placement(Placement::Host).unwrap_err().is_out_of_memory());
/// assert_eq!(placed_stats(&device).resident_bytes, 48 << 20);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn limit_host(device: &impl Device, bytes: u64) {
    device.stream_handle().memory().host_side().set_limit(bytes);
}
