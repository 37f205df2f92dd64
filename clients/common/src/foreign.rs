//! How gpucache gets between the other crate and the driver: the one file that uses `gpucache::foreign`.

use serde::Serialize;

/// What gpucache counts of one scope's memory that other crates allocate and free: its `ForeignStats`.
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

/// The driver's pool as the driver comes; gpucache has it keep what is freed outside of scopes if nobody says no.
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
