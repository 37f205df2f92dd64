//! One scope: what it did and holds, in all and on each thread.

use gpucache_engine::cache::{Cache, NamedCaches};
use gpucache_engine::home::{PlanStats, ScopeStats};
use gpucache_engine::pressure::ReclaimStats;

/// A scope by its name: what [`stats`](crate::stats), [`plan_stats`](crate::plan_stats) and [`reclaim_of`](crate::reclaim_of) tell of
/// it, and what is behind that on each thread.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, process_stats};
///
/// cache_scope!(named, { Host::new().zeros::<u8>(4096)? });
/// let scopes = process_stats().scopes;
/// let named = scopes.iter().find(|scope| scope.name == "named").unwrap();
/// assert_eq!((named.stats.misses + named.stats.recycled, named.threads.len()), (1, 1));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct NamedStats {
    /// The scope's name.
    pub name: String,
    /// What it did and holds, over all threads.
    pub stats: ScopeStats,
    /// How it plans, over all threads.
    pub plans: PlanStats,
    /// How its allocations were served where memory was short.
    pub reclaim: ReclaimStats,
    /// The same by thread, in the order in which they came.
    pub threads: Vec<ThreadStats>,
}

/// What a scope did and holds on one thread, and on those before it that have ended and whose memory it took over.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, process_stats};
///
/// let work = || cache_scope!(of_worker, { drop(Host::new().zeros::<u8>(4096)); });
/// std::thread::Builder::new().name("worker".into()).spawn(work)?.join().unwrap();
/// let scopes = process_stats().scopes;
/// let scope = scopes.iter().find(|scope| scope.name == "of_worker").unwrap();
/// assert_eq!((&scope.threads[0].thread, scope.threads[0].stats.entries), (&None, 1)); // it has ended
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ThreadStats {
    /// The thread's name, or a number where it has none; `None` once it has ended.
    pub thread: Option<String>,
    /// Whether it is inside the scope now.
    pub is_inside: bool,
    /// What the scope did and holds on it.
    pub stats: ScopeStats,
}

pub(super) fn read(scope: &NamedCaches) -> NamedStats {
    NamedStats {
        name: scope.name().to_string(),
        stats: scope.stats(),
        plans: scope.plan_stats(),
        reclaim: scope.reclaim(),
        threads: scope.caches().into_iter().map(read_thread).collect(),
    }
}

fn read_thread(cache: &'static Cache) -> ThreadStats {
    ThreadStats {
        thread: cache.thread().map(|name| name.to_string()),
        is_inside: cache.is_entered(),
        stats: cache.stats(),
    }
}
