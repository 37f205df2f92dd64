//! What can be done with a scope's name from outside: give its memory back, and ask for its statistics.

use std::fmt;
use std::sync::Arc;

use crate::diagnosis::{self, Diagnosis, Siblings};
use gpucache_engine::base::amounts::{Bytes, Count};
#[cfg(feature = "tracing")]
use gpucache_engine::base::subscriber::{self, TARGET};
use gpucache_engine::cache::{Cache, NamedCaches, ScopeFacts};
use gpucache_engine::home::{PlanStats, ScopeStats};
use gpucache_engine::pressure::ReclaimStats;

/// What a name may be computed as: all that is `AsRef<str>`. It stands between the macros and that trait for its message.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the name of a scope: give a `&str` or a `String`, such as `format!(\"layer{{index}}\")`",
    label = "not a name"
)]
pub trait AsName {
    /// The name.
    fn as_name(&self) -> &str;
}

#[diagnostic::do_not_recommend]
impl<N: AsRef<str> + ?Sized> AsName for N {
    fn as_name(&self) -> &str {
        self.as_ref()
    }
}

/// What an invalidation took from a scope, or from several, over all threads.
///
/// ```
/// use gpucache::{cache_scope, invalidate, prelude::*};
///
/// let host = Host::new();
/// let kept = cache_scope!(given, { host.zeros::<u8>(4096)? });
/// cache_scope!(given, { host.zeros::<u8>(4096)? });
/// let given = invalidate("given");
/// assert_eq!((given.is_known, given.bytes, given.busy_blocks), (true, 4096, 1));
/// # drop(kept);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invalidated {
    /// Whether a scope of the name was ever entered: if not, it may be misspelt ([`scopes`] lists all).
    pub is_known: bool,
    /// Bytes that stay free for the scope no longer: the larger of [`idle_bytes`](ScopeStats::idle_bytes) and
    /// [`spare_bytes`](ScopeStats::spare_bytes) just before. How many of them go back to the device is another matter, and to be
    /// seen from [`Device::memory`](crate::device::Device::memory): what other scopes are likely to need stays.
    pub bytes: u64,
    /// Blocks that were in use, whose memory is given back when their arrays are dropped.
    pub busy_blocks: u64,
}

impl fmt::Display for Invalidated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_known {
            true => {
                let busy = Count(self.busy_blocks, "block", "blocks");
                write!(f, "{} given back, {busy} still in use", Bytes(self.bytes))
            }
            false => f.write_str("no scope of this name was entered"),
        }
    }
}

/// Gives the memory of the scope `name` back to its devices, on all threads: idle blocks now, blocks in use when their
/// arrays are dropped. Arrays stay valid. A name that was never entered
/// has nothing to give, which [`is_known`](Invalidated::is_known) tells.
///
/// Scopes share the memory of a device: what other scopes had in use at once stays reserved for them, and what goes back
/// to the device is the rest, in whole pages. [`trim`](crate::trim) gives back all that is free.
///
/// Idle blocks of a thread that is inside the scope at this moment are freed by that thread, at its next allocation or
/// drop in the scope, at the latest when it leaves; they are counted in `bytes` already.
///
/// ```
/// use gpucache::{cache_scope, invalidate, prelude::*};
///
/// cache_scope!(frame, { Array::<u8, _>::zeros(&Host::new(), 4096)? });
/// assert_eq!(invalidate("frame").bytes, 4096);
/// assert_eq!(invalidate("frame").bytes, 0);
/// assert!(!invalidate("farme").is_known);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn invalidate(name: impl AsRef<str>) -> Invalidated {
    let Some(scope) = NamedCaches::find(name.as_ref()) else { return Invalidated::default() };
    let held = invalidate_scope(&scope);
    let caches = scope.caches();
    drop(NamedCaches::trim_to_demand(true, |device| caches.iter().any(|cache| cache.serves(device))));
    held
}

/// As [`invalidate`], for every scope of the process.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// let host = Host::new();
/// cache_scope!(load, { host.zeros::<u8>(4096)? });
/// cache_scope!(train, { host.zeros::<u8>(8192)? });
/// assert_eq!(gpucache::invalidate_all().bytes, 4096 + 8192);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn invalidate_all() -> Invalidated {
    let sum =
        NamedCaches::all().iter().map(|scope| invalidate_scope(scope)).fold(Invalidated::default(), |sum, one| {
            let bytes = sum.bytes.saturating_add(one.bytes);
            Invalidated { is_known: true, bytes, busy_blocks: sum.busy_blocks.saturating_add(one.busy_blocks) }
        });
    // Once for all of them.
    drop(NamedCaches::trim_to_demand(true, |_| true));
    sum
}

/// Releases what a scope holds, for the caller to give back to the devices.
fn invalidate_scope(scope: &NamedCaches) -> Invalidated {
    let held = scope.stats();
    scope.caches().into_iter().for_each(Cache::invalidate);
    let (bytes, busy_blocks) = (held.idle_bytes.max(held.spare_bytes), held.busy_blocks);
    #[cfg(feature = "tracing")]
    subscriber::tell(|| {
        tracing::debug!(target: TARGET, scope = &**scope.name(), bytes, busy_blocks, "invalidation");
    });
    Invalidated { is_known: true, bytes, busy_blocks }
}

/// The names of all scopes, in no order: those that were ever entered, but for names that were forgotten as nobody came back to
/// them while many others came up.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// cache_scope!(listed, { Array::<u8, _>::zeros(&Host::new(), 1)? });
/// assert!(gpucache::scopes().iter().any(|name| &**name == "listed"));
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn scopes() -> Vec<Arc<str>> {
    NamedCaches::all().iter().map(|caches| caches.name().clone()).collect()
}

/// What the scope `name` did and holds, over all threads; `None` if it was never entered, or is forgotten.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// let kept = cache_scope!(decode, { Array::<f32, _>::zeros(&Host::new(), 16)? });
/// let stats = gpucache::stats("decode").unwrap();
/// assert_eq!((stats.entries, stats.misses, stats.busy_bytes), (1, 1, 64));
/// assert!(gpucache::stats("never entered").is_none());
/// # drop(kept);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn stats(name: impl AsRef<str>) -> Option<ScopeStats> {
    NamedCaches::find(name.as_ref()).map(|scope| scope.stats())
}

/// How the scope `name` plans, over all threads; `None` if it was never entered.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// let host = Host::new();
/// for _ in 0..10 {
///     cache_scope!(decode, {
///         let keys = Array::<f32, _>::zeros(&host, [8, 64])?;
///         let _scores = keys.try_clone()?;
///     });
/// }
/// let stats = gpucache::plan_stats("decode").unwrap();
/// assert_eq!((stats.plans, stats.positions, stats.arena_bytes), (1, 2, 2 * 8 * 64 * 4));
/// assert_eq!(stats.planned, 8 * 2, "all but the two entries that were learned from");
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn plan_stats(name: impl AsRef<str>) -> Option<PlanStats> {
    NamedCaches::find(name.as_ref()).map(|scope| scope.plan_stats())
}

/// How often allocations of the scope `name` found a device short of memory, and which reclaim step served them, over all
/// threads; `None` if it was never entered. Counted where that happens, at no cost to any other allocation. What the limit of
/// the scope itself refused is not among them.
///
/// ```
/// use gpucache::{ReclaimStep, cache_scope, reclaim_of, device::Virtual, prelude::*};
///
/// let device = Virtual::new(8 << 20);
/// cache_scope!(idle, recycle = "keyed", { device.zeros::<u8>(6 << 20)? });
/// cache_scope!(in_need, recycle = "keyed", { device.zeros::<u8>(4 << 20)? }); // for which the first one gives its memory
/// let reclaim = reclaim_of("in_need").unwrap();
/// assert_eq!((reclaim.shortages(), reclaim.step(ReclaimStep::OtherScopes).served), (1, 1));
/// assert_eq!(reclaim_of("idle").unwrap().shortages(), 0);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn reclaim_of(name: impl AsRef<str>) -> Option<ReclaimStats> {
    NamedCaches::find(name.as_ref()).map(|scope| scope.reclaim())
}

/// What keeps the scope `name` from being planned, or has it hold more than it needs, over all threads; `None` if it was never
/// entered, or is forgotten. It tells causes with what they cost, the lines of the program that they come from, and what to change.
///
/// All of it comes from what was counted where no plan serves, at no cost to what a plan does serve. Of a thread that is inside the
/// scope it is as of that thread's last entry.
///
/// ```
/// use gpucache::{Cause, cache_scope, prelude::*};
///
/// let host = Host::new();
/// let mut kept = Vec::new();
/// for _ in 0..100 {
///     cache_scope!(keeping, {
///         drop(host.zeros::<f32>([32, 64])?);
///         kept.push(host.zeros::<f32>([32, 10])?);
///     });
/// }
/// let diagnosis = gpucache::diagnose("keeping").unwrap();
/// assert_eq!(diagnosis.findings[0].cause, Cause::Escapes);
/// println!("{diagnosis}");
/// assert!(gpucache::diagnose("never entered").is_none());
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn diagnose(name: impl AsRef<str>) -> Option<Diagnosis> {
    let scope = NamedCaches::find(name.as_ref())?;
    let threads: Vec<ScopeFacts> = scope.caches().into_iter().map(Cache::known).collect();
    let siblings = scope.siblings().iter().fold(Siblings::default(), |sum, one| {
        let stats = one.stats();
        let entries = sum.entries.saturating_add(stats.entries);
        let idle_bytes = sum.idle_bytes.saturating_add(stats.idle_bytes);
        Siblings { names: sum.names + 1, entries, idle_bytes }
    });
    Some(diagnosis::examine(scope.name().clone(), &threads, siblings))
}
