//! Counters of memory that other crates allocate, by scope.

use std::fmt;

use gpucache_engine::base::amounts::Count;
use gpucache_engine::cache::NamedCaches;

/// Counters of one scope for memory that other crates allocate and free through the driver, over all threads, since the process began.
///
/// ```no_run
/// use gpucache::{cache_scope, foreign};
///
/// # fn candle_step() {}
/// cache_scope!(train_step, { candle_step() });
/// let stats = foreign::stats("train_step").unwrap();
/// println!("{} of {}", stats.served, stats.served + stats.passed_on);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ForeignStats {
    /// Allocations that the scope served.
    pub served: u64,
    /// Allocations inside the scope that were passed on to the driver, because the stream is captured or its context is not the device's.
    pub passed_on: u64,
    /// Blocks of the scope that were freed on another stream than their own. The memory's next life waits for that stream.
    pub freed_elsewhere: u64,
}

impl fmt::Display for ForeignStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allocations = Count(self.served, "allocation", "allocations");
        write!(f, "{allocations} served, {} passed on, {} freed elsewhere", self.passed_on, self.freed_elsewhere)
    }
}

/// The counters of the scope `name` for memory that other crates allocate; `None` if the scope was never entered.
///
/// ```
/// use gpucache::{cache_scope, foreign};
///
/// cache_scope!(quiet, {});
/// assert_eq!(foreign::stats("quiet").unwrap().served, 0);
/// assert!(foreign::stats("nobody").is_none());
/// ```
pub fn stats(name: impl AsRef<str>) -> Option<ForeignStats> {
    let caches = NamedCaches::find(name.as_ref())?.caches();
    Some(caches.iter().map(|cache| cache.foreign()).fold(ForeignStats::default(), |sum, one| ForeignStats {
        served: sum.served + one.0,
        passed_on: sum.passed_on + one.1,
        freed_elsewhere: sum.freed_elsewhere + one.2,
    }))
}
