//! All scopes by name, and the caches of all threads in each scope.
//!
//! Caches live as long as the process, so a block always finds its home. A thread that ends leaves its caches behind as *orphans*.
//! The next thread that enters the scope goes on with one of them.
//!
//! A name is forgotten if no thread enters it while many other names come up, for example where each request names a scope. If no
//! array of its cache is alive, the cache goes to the next new name. So a name has as many caches as threads used it at one time.
//! Beyond these, each thread keeps at most [`NamedCaches::LATELY`] names.
//!
//! Invariants: a cache is in use by one thread, or in its scope's `orphans`, or in `UNUSED`. A scope that is gone has no caches and
//! gets none.

use std::any::Any;
use std::panic::Location;
use std::sync::Arc;

use hashbrown::HashMap;

use super::local::Local;
use super::owner::{Cache, ScopeSite};
use crate::base::sync::{LazyLock, Mutex, OnceLock, lock};
#[cfg(feature = "cuda")]
use crate::device::GraphEnd;
use crate::device::Memory;
use crate::home::Counts;
use crate::pressure::{ReclaimStats, demand, reclaim};
use crate::trace;

/// The caches of one name.
pub struct NamedCaches {
    name: Arc<str>,
    threads: Mutex<NamedThreads>,
    /// What a front end keeps about arrays that leave the device in this scope.
    offload: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// The caches of a scope, and the sums of earlier ones.
#[derive(Default)]
struct NamedThreads {
    /// Every cache of the name.
    caches: Vec<&'static Cache>,
    /// Caches whose threads have ended, the one that ended last on top.
    orphans: Vec<&'static Cache>,
    /// The statistics of caches that went to other names.
    past: Counts,
    past_reclaim: ReclaimStats,
    /// How many names had come up when the last thread ended.
    orphaned: u64,
    is_gone: bool,
}

#[derive(Default)]
struct Scopes {
    by_name: HashMap<Arc<str>, Arc<NamedCaches>>,
    /// The number of names that ever came up.
    made: u64,
    /// With this many names, the registry looks for names whose threads have all ended.
    look_at: usize,
}

/// Caches of names that were forgotten.
static UNUSED: Mutex<Vec<&'static Cache>> = Mutex::new(Vec::new());

static SCOPES: LazyLock<Mutex<Scopes>> = LazyLock::new(Mutex::default);

impl NamedCaches {
    /// A name is forgotten only after this many other names came up since its last entry. A name takes some kilobytes.
    pub const LATELY: u64 = 1024;
    /// With fewer names than this, none is forgotten. Together they take a few megabytes.
    pub const FEW: usize = 512;

    /// Gives back free pages of the devices for which `serves` holds, except what scopes are likely to need again. If `waits`,
    /// waits a moment for the work that uses the pages. Returns devices without other handles, which the caller must drop where no
    /// lock is held.
    pub fn trim_to_demand(waits: bool, serves: impl Fn(u64) -> bool) -> Vec<Memory> {
        #[cfg(feature = "cuda")]
        GraphEnd::free_ended();
        demand::trim_to_demand(waits, serves)
    }

    /// Finds the scope of this name, or makes it, and returns a cache of it for a thread that has none yet. This is the cache of a
    /// thread that has ended, as that thread left it, or a new one. `site` is the place in the program that made the scope.
    pub fn adopt(name: &str, site: Option<&'static Location<'static>>) -> (Arc<NamedCaches>, &'static Cache) {
        // A program may enter a scope before it uses a device. The trace must have that entry too.
        trace::start_from_environment();
        loop {
            let (scope, left) = lock(&SCOPES).of(name);
            left.iter().for_each(|scope| scope.forget_orphans());
            // `take_cache` returns `None` only if the name was forgotten since.
            if let Some(cache) = scope.take_cache(site) {
                return (scope, cache);
            }
        }
    }

    /// The caches of a name, if the name is known.
    pub fn find(name: &str) -> Option<Arc<NamedCaches>> {
        lock(&SCOPES).by_name.get(name).cloned()
    }

    /// The caches of all names.
    pub fn all() -> Vec<Arc<NamedCaches>> {
        lock(&SCOPES).by_name.values().cloned().collect()
    }

    /// The name.
    #[inline]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// A place for what a front end keeps about arrays that leave the device in this scope. A name that was forgotten and came again is
    /// another scope.
    pub fn offload(&self) -> &OnceLock<Arc<dyn Any + Send + Sync>> {
        &self.offload
    }

    fn take_cache(&self, site: ScopeSite) -> Option<&'static Cache> {
        let mut threads = lock(&self.threads);
        if threads.is_gone {
            return None;
        }
        let cache = threads.orphans.pop().unwrap_or_else(|| {
            let unused = lock(&UNUSED).pop();
            let cache = unused.unwrap_or_else(|| {
                reclaim::expect_another();
                Cache::leak()
            });
            cache.rename(&self.name, site);
            threads.caches.push(cache);
            cache
        });
        cache.note_thread();
        Some(cache)
    }

    /// Takes back a cache that [`adopt`](NamedCaches::adopt) gave to a thread that now ends.
    pub(super) fn take_back(&self, cache: &'static Cache) {
        cache.close();
        cache.forget_thread();
        let made = lock(&SCOPES).made;
        let mut threads = lock(&self.threads);
        threads.orphans.push(cache);
        threads.orphaned = made;
    }

    /// Takes back a cache that [`adopt`](NamedCaches::adopt) gave to a thread that goes on, if no array of the cache is alive.
    /// Forgets the name once no thread has a cache of it. Returns whether the cache was taken back.
    pub fn forget(self: &Arc<NamedCaches>, cache: &'static Cache) -> bool {
        let is_retired = cache.retire(|owner| {
            // Whoever reads the statistics finds them here or in the cache.
            let mut threads = lock(&self.threads);
            threads.past += owner.with(Local::reset);
            threads.past_reclaim.add(&cache.take_reclaim());
            threads.caches.retain(|other| !std::ptr::eq(*other, cache));
        });
        if !is_retired {
            return false;
        }
        cache.forget_thread();
        lock(&UNUSED).push(cache);
        self.forget_name();
        true
    }

    /// Takes back the caches of ended threads, as [`forget`](NamedCaches::forget) does.
    fn forget_orphans(self: &Arc<NamedCaches>) {
        let orphans = std::mem::take(&mut lock(&self.threads).orphans);
        let kept = orphans.into_iter().filter(|cache| !self.forget(cache));
        let kept: Vec<_> = kept.collect();
        lock(&self.threads).orphans.extend(kept);
    }

    fn forget_name(self: &Arc<NamedCaches>) {
        let mut scopes = lock(&SCOPES);
        let mut threads = lock(&self.threads);
        if threads.caches.is_empty() && !std::mem::replace(&mut threads.is_gone, true) {
            scopes.by_name.remove(&self.name);
        }
    }

    /// All threads' caches of the name.
    pub fn caches(&self) -> Vec<&'static Cache> {
        lock(&self.threads).caches.clone()
    }

    /// Whether all its threads ended before more than `made` names had come up.
    fn is_left_since(&self, made: u64) -> bool {
        let threads = lock(&self.threads);
        threads.orphans.len() == threads.caches.len() && threads.orphaned <= made
    }

    /// Sets the peaks of each thread to its current use.
    pub fn reset_peaks(&self) {
        let mut threads = lock(&self.threads);
        threads.past.forget_peaks();
        // Under the lock, since a cache may go to another name afterwards.
        threads.caches.iter().for_each(|cache| cache.ask_for_reset());
        let caches = threads.caches.clone();
        drop(threads);
        caches.into_iter().for_each(Cache::follow_reset);
    }

    /// The reclaims for this name, summed over all threads.
    pub fn reclaim(&self) -> ReclaimStats {
        let threads = lock(&self.threads);
        threads.caches.iter().map(|cache| cache.reclaim()).fold(threads.past_reclaim, |mut sum, one| {
            sum.add(&one);
            sum
        })
    }

    /// The statistics of caches that this name had, and that went to other names. Also what `read` returns for each cache that it has. `read`
    /// runs under a lock, so it only reads.
    pub fn read<R>(&self, read: impl Fn(&'static Cache) -> R) -> (Counts, Vec<R>) {
        let threads = lock(&self.threads);
        (threads.past, threads.caches.iter().map(|cache| read(cache)).collect())
    }

    /// Frees the memory of all threads' caches of the name, as [`Cache::follow_invalidation`] does.
    pub fn invalidate(&self) {
        // Under the lock, so no cache has gone to another name.
        let caches = {
            let threads = lock(&self.threads);
            threads.caches.iter().for_each(|cache| cache.shared.generations.raise());
            threads.caches.clone()
        };
        caches.into_iter().for_each(Cache::follow_invalidation);
    }
}

impl Scopes {
    /// Finds the scope of this name, or makes it. Now and then, where there are many names, also returns the scopes that no thread
    /// entered lately.
    fn of(&mut self, name: &str) -> (Arc<NamedCaches>, Vec<Arc<NamedCaches>>) {
        if let Some(scope) = self.by_name.get(name) {
            return (scope.clone(), Vec::new());
        }
        let scope = Arc::new(NamedCaches { name: name.into(), threads: Mutex::default(), offload: OnceLock::new() });
        let left = if self.by_name.len() >= self.look_at.max(NamedCaches::FEW) { self.left() } else { Vec::new() };
        self.by_name.insert(scope.name.clone(), scope.clone());
        self.made += 1;
        (scope, left)
    }

    fn left(&mut self) -> Vec<Arc<NamedCaches>> {
        let Some(before) = self.made.checked_sub(NamedCaches::LATELY) else { return Vec::new() };
        let left: Vec<_> = self.by_name.values().filter(|scope| scope.is_left_since(before)).cloned().collect();
        // As many names as are left now have to come up before the next search. So each name is looked at a bounded number of
        // times.
        self.look_at = 2 * (self.by_name.len() - left.len());
        left
    }
}
