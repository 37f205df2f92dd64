//! The memory of other crates in a scope: [`ForeignStats`].

use std::fmt;

use gpucache_engine::base::amounts::{Count, combine};
use gpucache_engine::home::{Counter, Counts};

/// Counts of the memory that other crates allocate and free through the driver inside a scope. They cover all threads since the
/// process began. All are 0 without the feature `foreign`. See `gpucache::foreign`.
///
/// ```no_run
/// use gpucache::cache_scope;
///
/// # fn candle_step() {}
/// cache_scope!(train_step, { candle_step() });
/// let foreign = gpucache::stats("train_step").unwrap().foreign;
/// println!("{} of {}", foreign.served, foreign.served + foreign.passed_on);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ForeignStats {
    /// Allocations that the scope served.
    pub served: u64,
    /// Of these, allocations in a capture that other code began. Their memory belongs to the graph until the graph is destroyed. It counts
    /// for the device and not for the scope.
    pub captured: u64,
    /// Allocations inside the scope that went on to the driver, because the beginning of a capture was not seen or the context is not the device's own.
    pub passed_on: u64,
    /// Blocks of the scope that were freed on another stream than their own. The next use of their memory waits for that stream.
    pub freed_elsewhere: u64,
}

impl ForeignStats {
    pub(super) fn of(counts: &Counts) -> ForeignStats {
        ForeignStats {
            served: counts.get(Counter::ForeignServed),
            captured: counts.get(Counter::ForeignCaptured),
            passed_on: counts.get(Counter::ForeignPassedOn),
            freed_elsewhere: counts.get(Counter::FreedElsewhere),
        }
    }
}

combine!(ForeignStats: served captured passed_on freed_elsewhere;);

impl fmt::Display for ForeignStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allocations = Count(self.served, "allocation", "allocations");
        write!(f, "{allocations} served")?;
        if self.captured > 0 {
            write!(f, " ({} in captures)", self.captured)?;
        }
        write!(f, ", {} passed on, {} freed elsewhere", self.passed_on, self.freed_elsewhere)
    }
}
