//! Functions that take a scope's name: free its memory, read its statistics, diagnose it.

use std::sync::Arc;

use hashbrown::HashMap;

use super::stack::ScopeGuard;
use super::unknown;
use crate::diagnosis::{self, Diagnosis, Siblings};
use crate::stats::{Invalidated, ScopeStats, of_scope};
#[cfg(feature = "tracing")]
use gpucache_engine::base::subscriber::{self, TARGET};
use gpucache_engine::cache::{Cache, NamedCaches, ScopeFacts};

/// The type of a computed name: anything that is `AsRef<str>`. The macros use this trait for its error message.
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

/// Frees the memory of the scope `name` on all threads: idle blocks now, blocks in use when their arrays are dropped. Arrays stay
/// valid.
///
/// Scopes share the memory of a device. The device's range keeps as many bytes as other scopes had in use at once. It returns the
/// rest to the device, in whole pages. [`Device::trim`](crate::device::Device::trim) also returns what other scopes will need again.
///
/// If a thread is inside the scope now, it frees its idle blocks itself: at its next allocation or drop in the scope, or when it leaves.
/// The result counts them already.
///
/// The call does not fail. If the device reports an error while memory goes back, the next fallible call on that device returns the error.
///
/// If no scope of this name exists, the call prints one line on stderr, with similar names if there are any. It does so once for each
/// name, and for at most 32 names in a process.
///
/// ```
/// use gpucache::{cache_scope, invalidate, prelude::*};
///
/// cache_scope!(frame, { Array::<u8, _>::zeros(&Host::new(), 4096)? });
/// assert_eq!(invalidate("frame").bytes, 4096);
/// assert_eq!(invalidate("frame").bytes, 0);
/// assert!(!invalidate("farme").is_known); // prints: did you mean "frame"?
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn invalidate(name: impl AsRef<str>) -> Invalidated {
    let name = name.as_ref();
    let freed = invalidate_if_known(name);
    if !freed.is_known {
        unknown::report(name);
    }
    freed
}

/// The same, without a word about a name that nobody knows.
pub(super) fn invalidate_if_known(name: &str) -> Invalidated {
    let Some(scope) = NamedCaches::find(name) else { return Invalidated::default() };
    let freed = invalidate_scope(&scope);
    let caches = scope.caches();
    drop(NamedCaches::trim_to_demand(true, |device| caches.iter().any(|cache| cache.serves(device))));
    freed
}

/// Calls [`invalidate`] for every scope of the process.
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
    // Once for all scopes.
    drop(NamedCaches::trim_to_demand(true, |_| true));
    sum
}

/// Invalidates the scope of this name, and forgets it on this thread, with its statistics. For scopes that only a tool enters.
pub fn forget(name: &str) {
    invalidate_if_known(name);
    ScopeGuard::forget(name);
}

/// Releases what a scope holds. The caller returns it to the devices.
fn invalidate_scope(scope: &NamedCaches) -> Invalidated {
    let held = of_scope(scope);
    scope.invalidate();
    let (bytes, busy_blocks) = (held.idle_bytes.max(held.spare_bytes), held.busy_blocks);
    #[cfg(feature = "tracing")]
    subscriber::tell(|| {
        tracing::debug!(target: TARGET, scope = &**scope.name(), bytes, busy_blocks, "invalidation");
    });
    Invalidated { is_known: true, bytes, busy_blocks }
}

/// The names of all scopes that a thread ever entered, in no order. While many new names come up, gpucache forgets names that no thread
/// enters any more.
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

/// All statistics of the scope `name`, over all threads; `None` if no scope of this name exists.
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
/// let stats = gpucache::stats("decode").unwrap();
/// assert_eq!((stats.entries, stats.allocations(), stats.busy_bytes), (10, 20, 0));
/// assert_eq!(stats.served.planned.allocations, 8 * 2, "all but the two entries that gpucache learned from");
/// assert_eq!((stats.plan.plans, stats.plan.arena_bytes), (1, 2 * 8 * 64 * 4));
/// assert!(gpucache::stats("never entered").is_none());
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn stats(name: impl AsRef<str>) -> Option<ScopeStats> {
    NamedCaches::find(name.as_ref()).map(|scope| of_scope(&scope))
}

/// Finds why gpucache does not plan the scope `name`, or why the scope holds more memory than it needs; `None` if no scope of this
/// name exists. Each finding has a cause, its cost, the source lines, and a remedy.
///
/// A diagnosis uses counts of allocations that no plan serves, so it costs planned allocations nothing. While a thread is inside the
/// scope, its part of the diagnosis is as of its last entry.
///
/// ```
/// use gpucache::{cache_scope, diagnosis::Cause, prelude::*};
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
    let families = families(&NamedCaches::all(), Some(scope.name()));
    Some(diagnose_scope(&scope, &families))
}

/// The [diagnoses](diagnose) of all scopes, sorted by name. Scopes of one source line with the same problems, such as one for each layer
/// with a computed name, have one diagnosis together.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// for _ in 0..100 {
///     cache_scope!(healthy, { drop(Host::new().zeros::<f32>(64)?) });
/// }
/// let all = gpucache::diagnose_all();
/// assert!(all.iter().any(|one| &*one.scope == "healthy" && one.findings.is_empty()));
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn diagnose_all() -> Vec<Diagnosis> {
    let mut scopes = NamedCaches::all();
    scopes.sort_by(|one, other| one.name().cmp(other.name()));
    let families = families(&scopes, None);
    diagnosis::joined(scopes.iter().map(|scope| diagnose_scope(scope, &families)))
}

fn diagnose_scope(scope: &NamedCaches, families: &Families) -> Diagnosis {
    let (_, caches) = scope.read(|cache| (cache, cache.number()));
    // A cache may go to another name meanwhile, and then has another number.
    let known = |(cache, number): (&'static Cache, u64)| Some(cache.known()).filter(|_| cache.number() == number);
    let threads: Vec<ScopeFacts> = caches.into_iter().filter_map(known).collect();
    let prefetches = of_scope(scope).offload.prefetched > 0;
    diagnosis::examine(scope.name().clone(), &threads, siblings(families, scope.name()), prefetches)
}

/// Scopes with a number in their names, by their names without digits.
type Families = HashMap<String, Siblings>;

/// The name of the family; `None` for a name without a number.
fn family_of(name: &str) -> Option<String> {
    let plain: String = name.chars().filter(|letter| !letter.is_ascii_digit()).collect();
    (plain.len() < name.len()).then_some(plain)
}

/// The families of these scopes, or only that of the scope `of`.
fn families(scopes: &[Arc<NamedCaches>], of: Option<&str>) -> Families {
    let only = of.map(family_of);
    let mut families = Families::new();
    for scope in scopes {
        let Some(family) = family_of(scope.name()) else { continue };
        if only.as_ref().is_none_or(|only| only.as_ref() == Some(&family)) {
            let stats = of_scope(scope);
            families.entry(family).or_default().add(stats.entries, stats.idle_bytes);
        }
    }
    families
}

/// The scopes whose names differ from this one only in numbers, with this scope.
fn siblings(families: &Families, name: &str) -> Siblings {
    family_of(name).and_then(|family| families.get(&family).copied()).unwrap_or_default()
}
