//! The statistics of a part of the program: [`StatsGuard`].

use std::fmt;
use std::io::{self, Write};

use super::scope::{ScopeStats, of_scope};
use gpucache_engine::base::shortage::Short;
use gpucache_engine::cache::NamedCaches;

/// A guard that prints on stderr, when it is dropped, the work of a scope since [`report_on_drop`] made the guard. It can be displayed
/// at any time, and guards may overlap.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, stats};
///
/// let host = Host::new();
/// cache_scope!(told, { host.zeros::<u8>(4096)? });
/// let guard = stats::report_on_drop("told");
/// cache_scope!(told, { host.zeros::<u8>(4096)? });
/// assert!(guard.to_string().starts_with("told: 1 entry, 1 allocation: 1 hit, 0 recycled, 0 misses\n"));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[must_use = "the guard prints when it is dropped: bind it to a name, `let _report = ..`, because `let _ = ..` drops it at once"]
#[derive(Debug)]
pub struct StatsGuard {
    name: String,
    /// The statistics when the guard was made.
    before: ScopeStats,
}

/// Returns a guard. When the guard is dropped, it prints on stderr the work of the scope `name` since this call, on all threads,
/// and the memory that the scope holds.
///
/// The scope may be entered later for the first time; if it never is, the guard says so. The peaks that the guard prints start at the last
/// [`reset_peaks`](super::reset_peaks).
///
/// ```
/// use gpucache::{cache_scope, prelude::*, stats};
///
/// let _report = stats::report_on_drop("epoch"); // prints at the end of the block
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
    NamedCaches::find(name).map(|scope| of_scope(&scope)).unwrap_or_default()
}

/// The scope's name, and [what it did since](ScopeStats::since) the guard was made.
impl fmt::Display for StatsGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Short(&self.name);
        if self.before.entries == 0 && NamedCaches::find(&self.name).is_none() {
            return write!(f, "{name}: no thread ever entered a scope of this name");
        }
        write!(f, "{name}: {}", now(&self.name).since(&self.before))
    }
}

impl Drop for StatsGuard {
    fn drop(&mut self) {
        // If stderr is closed, nobody reads it.
        let _ = writeln!(io::stderr(), "{self}");
    }
}
