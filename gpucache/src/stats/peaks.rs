//! Peaks that start again, so that each phase of a program can have its own.

use gpucache_engine::cache::NamedCaches;

/// Sets the peaks of the scope `name` to the memory in use now: [`high_water_bytes`](super::ScopeStats::high_water_bytes), and the
/// peaks of [`in_plan`](super::ScopeStats::in_plan) and [`outside_plan`](super::ScopeStats::outside_plan). Returns whether a thread
/// ever entered a scope of this name. Nothing else changes.
///
/// If a thread is inside the scope now, its peaks start again when it leaves, or before.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, stats};
///
/// let host = Host::new();
/// cache_scope!(phase, { drop(host.zeros::<u8>(4096)?) });
/// assert!(stats::reset_peaks("phase"));
/// cache_scope!(phase, { drop(host.zeros::<u8>(100)?) });
/// assert_eq!(stats("phase").unwrap().high_water_bytes, 100);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn reset_peaks(name: impl AsRef<str>) -> bool {
    let scope = NamedCaches::find(name.as_ref());
    scope.iter().for_each(|scope| scope.reset_peaks());
    scope.is_some()
}
