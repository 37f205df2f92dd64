//! All scopes by name, and in each the caches of all threads.
//!
//! Scopes and caches live as long as the process, so that a block can always find its home. A thread that ends leaves its
//! caches as they are, orphans, and the next thread that enters the scope goes on with one of them: their number is bounded
//! by names times threads at one time. Invariant: an orphan stands in `orphans` once, and no thread has it.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use hashbrown::HashMap;

use super::owner::Cache;
use super::plan_stats::PlanStats;
use super::stats::ScopeStats;
use crate::base::error::Result;
use crate::base::sync::{LazyLock, Mutex, MutexGuard};
use crate::device::Device;
use crate::range::{self, DeviceRange};

/// The caches of one name.
pub(crate) struct Scope {
    name: &'static str,
    threads: Mutex<Threads>,
}

/// Who has a cache of a scope, and who had.
#[derive(Default)]
struct Threads {
    newest: Option<&'static Place>,
    /// Caches whose threads have ended, the one that ended last on top.
    orphans: Vec<&'static Cache>,
}

/// A cache in the list of all of its scope.
struct Place {
    cache: Cache,
    older: Option<&'static Place>,
}

type Scopes = HashMap<&'static str, &'static Scope>;

fn scopes() -> MutexGuard<'static, Scopes> {
    static SCOPES: LazyLock<Mutex<Scopes>> = LazyLock::new(Mutex::default);
    SCOPES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scope {
    /// The scope of this name, made if there is none.
    pub(crate) fn of(name: &str) -> &'static Scope {
        let mut scopes = scopes();
        if let Some(scope) = scopes.get(name) {
            return scope;
        }
        let scope = Box::leak(Box::new(Scope { name: Box::leak(name.into()), threads: Mutex::default() }));
        scopes.insert(scope.name, scope);
        scope
    }

    pub(crate) fn find(name: &str) -> Option<&'static Scope> {
        scopes().get(name).copied()
    }

    pub(crate) fn all() -> Vec<&'static Scope> {
        scopes().values().copied().collect()
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// A cache for a thread that has none of this name yet: one whose thread has ended, as it was left, or a new one.
    pub(crate) fn adopt(&'static self) -> &'static Cache {
        let mut threads = self.threads();
        threads.orphans.pop().unwrap_or_else(|| {
            let place: &Place = Box::leak(Box::new(Place { cache: Cache::new(), older: threads.newest }));
            threads.newest = Some(place);
            &place.cache
        })
    }

    /// Takes back what [`adopt`](Scope::adopt) gave, when the thread ends.
    pub(crate) fn orphan(&'static self, cache: &'static Cache) {
        cache.close();
        self.threads().orphans.push(cache);
    }

    /// Every thread's cache of the name.
    pub(crate) fn caches(&'static self) -> impl Iterator<Item = &'static Cache> {
        let newest = self.threads().newest;
        std::iter::successors(newest, |place| place.older).map(|place| &place.cache)
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn plan_stats(&'static self) -> PlanStats {
        let mut sum = PlanStats::default();
        self.caches().for_each(|cache| sum += cache.plan_stats());
        sum
    }

    pub(crate) fn stats(&'static self) -> ScopeStats {
        let mut sum = ScopeStats::default();
        self.caches().for_each(|cache| sum += cache.stats());
        sum
    }
}

/// Which idle blocks to give back.
#[derive(Clone, Copy)]
pub(super) enum Idle {
    /// Those of scopes that keep a budget anyway.
    Budgeted,
    All,
}

/// Gives idle blocks of all scopes on a device back to its range, except where another thread is inside. Where a plan
/// serves an entry, its block goes back if that is better than to let the range grow by `need` bytes. Returns the bytes.
pub(super) fn release_idle(which: Idle, device: u64, need: u64) -> u64 {
    let caches = Scope::all().into_iter().flat_map(Scope::caches).filter(|cache| cache.serves(device));
    caches.map(|cache| cache.release_idle(which, need)).sum()
}

/// Gives free pages of ranges back to their devices, where `serves` says so, but for what the scopes are likely to need
/// again.
pub(super) fn trim_to_demand(serves: impl Fn(u64) -> bool) {
    range::trim_all(|device| if serves(device) { demand(device) } else { u64::MAX });
    // What another thread lacked may be what was trimmed here.
    count_release(1);
}

/// How many bytes of a device's range the scopes are likely to need again.
pub(super) fn demand(device: u64) -> u64 {
    scopes().values().copied().flat_map(Scope::caches).map(|cache| cache.demand(device)).sum()
}

/// Gives pages in which no block lies back to the device, wherever they are, and returns the bytes.
///
/// Memory of a scope's arrays stays with the device's range when they are dropped, for the next entry of any scope. This
/// gives it back to the driver now, whatever scopes may need again, but for the idle blocks of `recycle = "keyed"`; it waits
/// for the work on the device first.
///
/// # Errors
/// A failure of the device, or of work on it.
///
/// ```
/// use gpucache::{cache_scope, device::Virtual, prelude::*};
///
/// let device = Virtual::new(1 << 30);
/// cache_scope!(warm_up, { Array::<u8, _>::zeros(&device, 4 << 20)? });
/// assert_eq!(gpucache::trim(&device)?, 4 << 20);
/// assert_eq!(device.memory().bytes, 0);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn trim(device: &impl Device) -> Result<u64> {
    release_idle(Idle::Budgeted, device.stream_handle().memory_id(), 0);
    DeviceRange::of(device.stream_handle()).map_or(Ok(0), |range| range.trim(0))
}

static RELEASES: AtomicU64 = AtomicU64::new(0);

/// How often idle memory was given back so far.
pub(super) fn releases() -> u64 {
    RELEASES.load(SeqCst)
}

pub(super) fn count_release(bytes: u64) {
    RELEASES.fetch_add(u64::from(bytes > 0), SeqCst);
}
