//! The scopes that a caller is inside of, the innermost last.
//!
//! Invariants: the engine serves the caller from the top of this stack, and each entry here has entered its cache once. All functions run
//! in the name of the caller.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use gpucache_engine::cache::{Cache, Current, NamedCaches, Terms};
use gpucache_engine::home::Visit;
use hashbrown::HashMap;

/// The name of the scope that serves allocations outside of all others.
const AUTO: &str = "auto";

static IS_AUTO: AtomicBool = AtomicBool::new(true);

/// Sets whether allocations outside of all scopes come from a scope named `auto`, which each thread enters with its first allocation and
/// leaves when it ends. The engine finds the loops in it, and plans their iterations. This is on by default. Each thread follows with its
/// next allocation outside of other scopes.
///
/// ```
/// gpucache_capi::set_auto_scope(true);
/// ```
pub fn set_auto_scope(is_on: bool) {
    IS_AUTO.store(is_on, Relaxed);
}

/// The open entries of a caller, and its caches by name.
#[derive(Default)]
pub(crate) struct Scopes {
    entries: Vec<OpenEntry>,
    caches: HashMap<Arc<str>, Known>,
    /// Whether the outermost entry is the scope `auto`, which nobody leaves.
    is_auto: bool,
    /// How many entries were ever made.
    made: u64,
    /// With this many names, those that are not in use are forgotten.
    look_at: usize,
}

struct OpenEntry {
    number: u64,
    /// The thread that began it. A thread that helps with a backward pass begins entries in the name of another thread's caller.
    thread: usize,
    /// `None` outside of all scopes. The number is the one by which the cache knows the entry.
    inside: Option<(Current, usize)>,
}

thread_local! {
    // Has no destructor, so its address identifies the thread until the very end.
    static MARK: u8 = const { 0 };
}

/// A number that no other living thread has.
fn thread() -> usize {
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

struct Known {
    scope: Arc<NamedCaches>,
    cache: &'static Cache,
}

impl Scopes {
    /// How many entries are open, apart from the scope `auto`.
    pub(crate) fn count(&self) -> usize {
        self.entries.len() - usize::from(self.is_auto)
    }

    /// Whether no scope serves the caller now.
    #[inline]
    pub(crate) fn is_outside(&self) -> bool {
        self.entries.last().is_none_or(|entry| entry.inside.is_none())
    }

    /// How many entries were ever made.
    #[inline]
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// Enters the scope of this name; `None` for outside of all scopes. Returns the number of the entry.
    pub(crate) fn enter(&mut self, name: Option<&str>) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Relaxed);
        self.push(number, name);
        number
    }

    /// Enters the scope `auto` if the caller is in no scope. Leaves it if it was switched off since.
    #[inline]
    pub(crate) fn follow_auto(&mut self) {
        match IS_AUTO.load(Relaxed) {
            true if self.entries.is_empty() => {
                self.push(0, Some(AUTO));
                self.is_auto = true;
            }
            false if self.is_auto && self.entries.len() == 1 => {
                self.is_auto = false;
                self.end(0);
            }
            _ => {}
        }
    }

    fn push(&mut self, number: u64, name: Option<&str>) {
        let inside = name.map(|name| {
            let (cache, terms) = (self.cache(name), Terms::new());
            let entry = cache.enter(terms, Visit::Entry);
            if Current::is_traced() {
                cache.note_entered();
            }
            (Current { cache, terms }, entry)
        });
        self.made += 1;
        self.entries.push(OpenEntry { number, thread: thread(), inside });
        self.serve();
    }

    /// Ends the entry of this number, which this thread began. Returns whether it was open.
    pub(crate) fn leave(&mut self, number: u64) -> bool {
        let is_it = |entry: &OpenEntry| entry.number == number && number > 0 && entry.thread == thread();
        let found = self.entries.iter().rposition(is_it);
        found.into_iter().for_each(|place| self.end(place));
        found.is_some()
    }

    /// Ends all entries that this thread began.
    pub(crate) fn leave_all_of_thread(&mut self) {
        while let Some(place) = self.entries.iter().rposition(|entry| entry.number > 0 && entry.thread == thread()) {
            self.end(place);
        }
    }

    fn end(&mut self, place: usize) {
        let entry = self.entries.remove(place);
        self.serve();
        if let Some((Current { cache, .. }, entry)) = entry.inside {
            // SAFETY: the stack had the entry, and has it no more. `serve` has named the innermost entry that is left.
            unsafe { cache.leave(entry) };
            if Current::is_traced() {
                cache.note_left();
            }
        }
    }

    /// Leaves all scopes, and gives their caches to the next callers.
    pub(crate) fn close(&mut self) {
        self.entries.clear();
        self.is_auto = false;
        self.serve();
        // SAFETY: `serve` has just named no cache.
        self.caches.drain().for_each(|(_, known)| unsafe { Current::orphan(known.cache, &known.scope) });
    }

    /// Lets the innermost scope serve the caller.
    fn serve(&self) {
        let current = |entry: &OpenEntry| entry.inside.map(|(current, _)| current);
        let outermost = self.entries.iter().find_map(current).map(|current| current.cache);
        // SAFETY: each entry has entered its cache in the name of this caller, and leaves it only after it was removed from `entries` and
        // this function was called again.
        unsafe { Current::set(self.entries.last().and_then(current), outermost) };
    }

    fn cache(&mut self, name: &str) -> &'static Cache {
        if let Some(known) = self.caches.get(name) {
            return known.cache;
        }
        if self.caches.len() >= self.look_at.max(NamedCaches::FEW) {
            self.forget_names();
        }
        let (scope, cache) = NamedCaches::adopt(name, None);
        self.caches.insert(scope.name().clone(), Known { scope, cache });
        cache
    }

    /// Forgets names without an open entry and without live memory.
    fn forget_names(&mut self) {
        self.caches.retain(|_, known| known.cache.is_entered() || !known.scope.forget(known.cache));
        // The next look comes once the number of names has doubled, so that each name is looked at a bounded number of times.
        self.look_at = 2 * self.caches.len();
    }
}
