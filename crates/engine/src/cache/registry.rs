//! All scopes by name, and in each the caches of all threads.
//!
//! Caches live as long as the process, so that a block can always find its home. A thread that ends leaves its caches as they
//! are, orphans, and the next thread that enters the scope goes on with one of them. A name that is not entered any more while
//! many others come up, as where scopes are named by request, is forgotten: its cache, if no array of it is alive, goes to
//! the next new name. So there are as many caches as names times threads were in use at one time, and no more than
//! [`NamedCaches::LATELY`] names of each thread beyond.
//!
//! Invariants: a cache is in use by one thread, stands in its scope's `orphans`, or in `UNUSED`. A scope that is gone has no
//! caches, and gets none.

use std::panic::Location;
use std::sync::{Arc, PoisonError};

use hashbrown::HashMap;

use super::owner::Cache;
use crate::base::sync::{LazyLock, Mutex, MutexGuard};
use crate::device::Memory;
use crate::home::Counts;
use crate::pressure::{ReclaimStats, demand};

/// The caches of one name.
pub struct NamedCaches {
    name: Arc<str>,
    threads: Mutex<NamedThreads>,
}

/// Who has a cache of a scope, and who had.
#[derive(Default)]
struct NamedThreads {
    /// Every cache of the name.
    caches: Vec<&'static Cache>,
    /// Caches whose threads have ended, the one that ended last on top.
    orphans: Vec<&'static Cache>,
    /// What caches did that went to other names.
    past: Counts,
    past_reclaim: ReclaimStats,
    /// How many names there had been when the last thread ended.
    orphaned: u64,
    is_gone: bool,
}

#[derive(Default)]
struct Scopes {
    by_name: HashMap<Arc<str>, Arc<NamedCaches>>,
    /// Names that ever came up.
    made: u64,
    /// With so many names, those of threads that have ended are looked through.
    look_at: usize,
}

/// Caches of names that were forgotten.
static UNUSED: Mutex<Vec<&'static Cache>> = Mutex::new(Vec::new());

fn scopes() -> MutexGuard<'static, Scopes> {
    static SCOPES: LazyLock<Mutex<Scopes>> = LazyLock::new(Mutex::default);
    lock(&SCOPES)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NamedCaches {
    /// A name is forgotten only once so many others came up since it was entered last. A name takes some kilobytes.
    pub const LATELY: u64 = 1024;
    /// With fewer names nothing is forgotten: together they take a few megabytes.
    pub const FEW: usize = 512;

    /// Gives free pages back of those devices for which `serves` holds, but for what scopes are likely to need again. `waits` a moment
    /// for the work that uses them. Returns devices that nobody else has by now, to be dropped where no lock is held.
    pub fn trim_to_demand(waits: bool, serves: impl Fn(u64) -> bool) -> Vec<Arc<Memory>> {
        demand::trim_to_demand(waits, serves)
    }

    /// The scope of this name, made if there is none, and a cache of it for a thread that has none yet: one whose thread has
    /// ended, as it was left, or a new one, which is of the scope that was made at `site`.
    pub fn adopt(name: &str, site: &'static Location<'static>) -> (Arc<NamedCaches>, &'static Cache) {
        loop {
            let (scope, left) = scopes().of(name);
            left.iter().for_each(|scope| scope.forget_orphans());
            // Gone only if it was forgotten since.
            if let Some(cache) = scope.take_cache(site) {
                return (scope, cache);
            }
        }
    }

    /// The caches of a name, if it is known.
    pub fn find(name: &str) -> Option<Arc<NamedCaches>> {
        scopes().by_name.get(name).cloned()
    }

    /// The caches of all names.
    pub fn all() -> Vec<Arc<NamedCaches>> {
        scopes().by_name.values().cloned().collect()
    }

    /// The name.
    #[inline]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn take_cache(&self, site: &'static Location<'static>) -> Option<&'static Cache> {
        let mut threads = lock(&self.threads);
        if threads.is_gone {
            return None;
        }
        let cache = threads.orphans.pop().unwrap_or_else(|| {
            let unused = lock(&UNUSED).pop();
            let cache = unused.unwrap_or_else(Cache::leak);
            cache.rename(&self.name, site);
            threads.caches.push(cache);
            cache
        });
        cache.note_thread();
        Some(cache)
    }

    /// Takes back what [`adopt`](NamedCaches::adopt) gave, when the thread ends.
    pub fn orphan(&self, cache: &'static Cache) {
        cache.close();
        cache.forget_thread();
        let made = scopes().made;
        let mut threads = lock(&self.threads);
        threads.orphans.push(cache);
        threads.orphaned = made;
    }

    /// Takes back what [`adopt`](NamedCaches::adopt) gave while the thread goes on, if no array of it is alive, and forgets the
    /// name once nobody has a cache of it. Returns whether it was taken.
    pub fn forget(self: &Arc<NamedCaches>, cache: &'static Cache) -> bool {
        let Some(past) = cache.retire() else { return false };
        let mut threads = lock(&self.threads);
        threads.past += past;
        threads.past_reclaim.add(&cache.take_reclaim());
        threads.caches.retain(|other| !std::ptr::eq(*other, cache));
        drop(threads);
        lock(&UNUSED).push(cache);
        self.forget_name();
        true
    }

    /// Takes the caches back that no thread has, as [`forget`](NamedCaches::forget) does.
    fn forget_orphans(self: &Arc<NamedCaches>) {
        let orphans = std::mem::take(&mut lock(&self.threads).orphans);
        let kept = orphans.into_iter().filter(|cache| !self.forget(cache));
        let kept: Vec<_> = kept.collect();
        lock(&self.threads).orphans.extend(kept);
    }

    fn forget_name(self: &Arc<NamedCaches>) {
        let mut scopes = scopes();
        let mut threads = lock(&self.threads);
        if threads.caches.is_empty() && !std::mem::replace(&mut threads.is_gone, true) {
            scopes.by_name.remove(&self.name);
        }
    }

    /// Every thread's cache of the name.
    pub fn caches(&self) -> Vec<&'static Cache> {
        lock(&self.threads).caches.clone()
    }

    /// Whether all its threads ended before so many names had come up.
    fn is_left_since(&self, made: u64) -> bool {
        let threads = lock(&self.threads);
        threads.orphans.len() == threads.caches.len() && threads.orphaned <= made
    }

    /// Has the peaks of every thread be what is in use now.
    pub fn reset_peaks(&self) {
        lock(&self.threads).past.forget_peaks();
        self.caches().into_iter().for_each(Cache::reset_peaks);
    }

    /// What was reclaimed for this name, of all threads.
    pub fn reclaim(&self) -> ReclaimStats {
        let past = lock(&self.threads).past_reclaim;
        self.caches().into_iter().map(Cache::reclaim).fold(past, |mut sum, one| {
            sum.add(&one);
            sum
        })
    }

    /// What is counted of caches that this name had, and that went to other names.
    pub fn past(&self) -> Counts {
        lock(&self.threads).past
    }
}

impl Scopes {
    /// The scope of this name, made if there is none; and, where many were made, those that no thread was in lately.
    fn of(&mut self, name: &str) -> (Arc<NamedCaches>, Vec<Arc<NamedCaches>>) {
        if let Some(scope) = self.by_name.get(name) {
            return (scope.clone(), Vec::new());
        }
        let scope = Arc::new(NamedCaches { name: name.into(), threads: Mutex::default() });
        let left = if self.by_name.len() >= self.look_at.max(NamedCaches::FEW) { self.left() } else { Vec::new() };
        self.by_name.insert(scope.name.clone(), scope.clone());
        self.made += 1;
        (scope, left)
    }

    fn left(&mut self) -> Vec<Arc<NamedCaches>> {
        let Some(before) = self.made.checked_sub(NamedCaches::LATELY) else { return Vec::new() };
        let left: Vec<_> = self.by_name.values().filter(|scope| scope.is_left_since(before)).cloned().collect();
        // As many have to come up first as are left now, so that each is looked at a bounded number of times.
        self.look_at = 2 * (self.by_name.len() - left.len());
        left
    }
}
