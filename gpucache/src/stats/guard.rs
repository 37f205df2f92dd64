//! What a stretch of the program allocated in a scope: told when a guard goes.

use std::fmt;
use std::io::{self, Write};

use gpucache_engine::base::shortage::Short;
use gpucache_engine::cache::NamedCaches;
use gpucache_engine::home::ScopeStats;

/// Tells on stderr what a scope allocated between its making and its drop: [`report_on_drop`]. It can be shown before, too, and
/// guards may be made within each other.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, report_on_drop};
///
/// let host = Host::new();
/// cache_scope!(told, { host.zeros::<u8>(4096)? });
/// let guard = report_on_drop("told");
/// cache_scope!(told, { host.zeros::<u8>(4096)? });
/// assert!(guard.to_string().starts_with("told: 1 entry, 1 allocation: 1 hit, 0 recycled, 0 misses\n"));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[must_use = "it tells when it is dropped: bind it to a name, `let _report = ..`, as `let _ = ..` drops it at once"]
#[derive(Debug)]
pub struct StatsGuard {
    name: String,
    /// What there was when it was made.
    before: ScopeStats,
}

/// A guard that tells on stderr, when it is dropped, what the scope `name` allocated since, on all threads, by what served it; and
/// what it holds then. The scope need not have been entered yet. Peaks are those since [`reset_peaks_of`](crate::reset_peaks_of).
///
/// ```
/// use gpucache::{cache_scope, prelude::*, report_on_drop};
///
/// let _report = report_on_drop("epoch"); // tells at the end of the block
/// for _ in 0..10 {
///     cache_scope!(epoch, { drop(Host::new().zeros::<f32>([32, 64])?) });
/// }
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn report_on_drop(name: impl Into<String>) -> StatsGuard {
    let name = name.into();
    let before = now(&name);
    StatsGuard { name, before }
}

fn now(name: &str) -> ScopeStats {
    NamedCaches::find(name).map(|scope| scope.stats()).unwrap_or_default()
}

/// The scope's name, and [what it did since](ScopeStats::since) the guard was made.
impl fmt::Display for StatsGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Short(&self.name), now(&self.name).since(&self.before))
    }
}

impl Drop for StatsGuard {
    fn drop(&mut self) {
        // Where stderr is closed nobody is left to be told.
        let _ = writeln!(io::stderr(), "{self}");
    }
}
