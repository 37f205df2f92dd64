//! Why a scope is not planned: a word and a sentence.

use std::fmt;

/// Why no plan serves a scope with `recycle = "auto"` now; shown as a sentence.
///
/// ```
/// use gpucache::{Unplanned, cache_scope, prelude::*};
///
/// cache_scope!(new, { drop(Host::new().zeros::<u8>(4096)?) });
/// let why = gpucache::plan_stats("new").unwrap().unplanned;
/// assert_eq!(why, Some(Unplanned::Learning));
/// assert_eq!(why.unwrap().to_string(), "no order of allocations and drops came twice yet");
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Unplanned {
    /// No order of allocations and drops came twice yet. Entries are recorded.
    Learning,
    /// No two entries of many had the same order. Recording pauses, and is tried again later.
    Irregular,
    /// There are plans, and no stretch of memory for them beside what is in use. It is looked for again later.
    Short,
}

impl fmt::Display for Unplanned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unplanned::Learning => "no order of allocations and drops came twice yet",
            Unplanned::Irregular => "no two entries of many had the same order of allocations: recording pauses",
            Unplanned::Short => "no stretch of memory is left for the plans beside what is in use",
        })
    }
}
