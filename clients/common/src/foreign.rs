//! How gpucache intercepts the other crate's calls of the driver. Only this file uses `gpucache::foreign`.

use serde::Serialize;

/// Counters of one scope for memory that other crates allocate and free: gpucache's `ForeignStats`.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Counts {
    served: u64,
    passed_on: u64,
    freed_elsewhere: u64,
}

#[cfg(feature = "scoped")]
pub(crate) fn entrance() -> String {
    gpucache::foreign::status().map_or_else(|error| format!("failed: {error}"), |entrance| entrance.to_string())
}

/// Leaves the driver's pool unchanged. By default gpucache makes the pool keep memory that is freed outside scopes.
#[cfg(feature = "scoped")]
pub(crate) fn leave_pool() {
    gpucache::foreign::keep_pool(false);
}

#[cfg(feature = "scoped")]
pub(crate) fn counts(name: &str) -> Option<Counts> {
    let gpucache::stats::ForeignStats { served, passed_on, freed_elsewhere, .. } = gpucache::stats(name)?.foreign;
    Some(Counts { served, passed_on, freed_elsewhere })
}

#[cfg(not(feature = "scoped"))]
pub(crate) fn entrance() -> String {
    "none: built without gpucache".into()
}

#[cfg(not(feature = "scoped"))]
pub(crate) fn leave_pool() {}
