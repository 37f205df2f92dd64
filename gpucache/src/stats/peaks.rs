//! Peaks that begin anew, so that a phase of the program has its own.

use crate::device::Device;
use gpucache_engine::cache::NamedCaches;

/// From now on the peak of a device is the most that is held of it from here on:
/// [`MemoryUse::peak_bytes`](crate::device::MemoryUse::peak_bytes). Nothing else changes.
///
/// ```
/// use gpucache::{device::Virtual, prelude::*, reset_peaks};
///
/// let device = Virtual::new(1 << 30);
/// drop(device.zeros::<u8>(4 << 20)?);
/// reset_peaks(&device);
/// drop(device.zeros::<u8>(1 << 20)?);
/// assert_eq!(device.memory().peak_bytes, 1 << 20);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn reset_peaks(device: &impl Device) {
    device.stream_handle().meter().reset_peak();
}

/// The same of the scope `name`: its [`high_water_bytes`](crate::ScopeStats::high_water_bytes) and the peaks of
/// [`planned`](crate::ScopeStats::planned) and [`beside`](crate::ScopeStats::beside). Returns whether a scope of the name was ever
/// entered.
///
/// On a thread that is inside the scope at this moment they begin anew when it leaves, at the latest. What the scope plans and keeps
/// stays as it is.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, reset_peaks_of};
///
/// let host = Host::new();
/// cache_scope!(phase, { drop(host.zeros::<u8>(4096)?) });
/// assert!(reset_peaks_of("phase"));
/// cache_scope!(phase, { drop(host.zeros::<u8>(100)?) });
/// assert_eq!(gpucache::stats("phase").unwrap().high_water_bytes, 100);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn reset_peaks_of(name: impl AsRef<str>) -> bool {
    let scope = NamedCaches::find(name.as_ref());
    scope.iter().for_each(|scope| scope.reset_peaks());
    scope.is_some()
}
