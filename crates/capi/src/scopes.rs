//! The scopes that a caller is inside of, the innermost last.
//!
//! Invariants: the engine serves the caller from the newest entry, and each entry here has entered its cache once. All functions run in the
//! name of the caller. Their time does not depend on the number of open entries.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use gpucache_engine::base::opened::Opened;
use gpucache_engine::cache::{Cache, Current, NamedCaches, Terms};
use gpucache_engine::home::Visit;
use hashbrown::HashMap;

use crate::captures;

/// The name of the scope that serves allocations outside of all others.
const AUTO: &str = "auto";

/// The low bits of an entry's number are its place in the list. More entries than this many bits can count would need 12 GiB.
const PLACE_BITS: u32 = 28;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;

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
    entries: Opened<OpenEntry>,
    /// How many entries are open, apart from the scope `auto`.
    count: usize,
    /// The place of the outermost entry of a scope. Entries before it are outside of all scopes.
    outermost: Option<usize>,
    caches: HashMap<Arc<str>, Known>,
    /// The place of the entry of the scope `auto`, which nobody leaves. No entry is before it.
    auto: Option<usize>,
    /// How many entries were ever made.
    made: u64,
    /// With this many names, those that are not in use are forgotten.
    look_at: usize,
}

struct OpenEntry {
    /// 0 for the scope `auto`.
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
pub(crate) fn thread() -> usize {
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

struct Known {
    scope: Arc<NamedCaches>,
    cache: &'static Cache,
}

impl Scopes {
    /// How many entries are open, apart from the scope `auto`.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether no scope serves the caller now.
    #[inline]
    pub(crate) fn is_outside(&self) -> bool {
        self.entries.newest().is_none_or(|entry| entry.inside.is_none())
    }

    /// How many entries were ever made.
    #[inline]
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// Enters the scope of this name; `None` for outside of all scopes. Returns the number of the entry.
    pub(crate) fn enter(&mut self, name: Option<&str>) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let place = self.push(name);
        let number = NEXT.fetch_add(1, Relaxed) << PLACE_BITS | (place as u64 & PLACE_MASK);
        self.entries.get_mut(place).into_iter().for_each(|entry| entry.number = number);
        self.count += 1;
        number
    }

    /// Enters the scope `auto` if the caller is in no scope. Leaves it if it was switched off since.
    #[inline]
    pub(crate) fn follow_auto(&mut self) {
        match IS_AUTO.load(Relaxed) {
            true if self.entries.is_empty() => self.auto = Some(self.push(Some(AUTO))),
            false if self.count() == 0 => self.auto.take().into_iter().for_each(|place| self.end(place)),
            _ => {}
        }
    }

    /// Enters a scope. Returns the place of the entry. A cache that is taken over returns idle memory.
    fn push(&mut self, name: Option<&str>) -> usize {
        let inside = captures::relaxed(|| {
            name.map(|name| {
                let (cache, terms) = (self.cache(name), Terms::new());
                let entry = cache.enter(terms, Visit::Entry);
                cache.note_entered();
                (Current { cache, terms }, entry)
            })
        });
        self.made += 1;
        let place = self.entries.push(OpenEntry { number: 0, thread: thread(), inside });
        if inside.is_some() {
            self.outermost.get_or_insert(place);
        }
        self.serve();
        place
    }

    /// Ends the entry of this number, which this thread began. Returns whether it was open.
    pub(crate) fn leave(&mut self, number: u64) -> bool {
        let place = (number & PLACE_MASK) as usize;
        let is_it = |entry: &OpenEntry| entry.number == number && number > 0 && entry.thread == thread();
        let is_open = self.entries.get(place).is_some_and(is_it);
        if is_open {
            self.count -= 1;
            self.end(place);
        }
        is_open
    }

    /// Ends all entries that this thread began, the newest first.
    pub(crate) fn leave_all_of_thread(&mut self) {
        let mut next = self.entries.newest_place();
        while let Some(place) = next {
            next = self.entries.before(place);
            let number = self.entries.get(place).map_or(0, |entry| entry.number);
            self.leave(number);
        }
    }

    /// Ends the entry in this place.
    fn end(&mut self, place: usize) {
        if self.outermost == Some(place) {
            self.outermost = self.next_inside(place);
        }
        let Some(entry) = self.entries.remove(place) else { return };
        self.serve();
        let Some((Current { cache, .. }, entry)) = entry.inside else { return };
        // SAFETY: the list had the entry, and has it no more. `serve` has named the innermost entry that is left.
        captures::relaxed(|| unsafe { cache.leave(entry) });
        cache.note_left();
    }

    /// The place of the first entry of a scope after `place`. Each entry outside of scopes is passed once, since those before the outermost
    /// entry are not looked at again.
    fn next_inside(&self, place: usize) -> Option<usize> {
        let is_inside = |&place: &usize| self.entries.get(place).is_some_and(|entry| entry.inside.is_some());
        std::iter::successors(self.entries.after(place), |&place| self.entries.after(place)).find(is_inside)
    }

    /// Leaves all scopes, and gives their caches to the next callers.
    pub(crate) fn close(&mut self) {
        (self.entries, self.auto, self.outermost, self.count) = (Opened::default(), None, None, 0);
        self.serve();
        let caches = self.caches.drain();
        // SAFETY: `serve` has just named no cache.
        let orphan = |(_, known): (_, Known)| unsafe { Current::orphan(known.cache, &known.scope) };
        captures::relaxed(|| caches.for_each(orphan));
    }

    /// Lets the innermost scope serve the caller.
    fn serve(&self) {
        let current = |entry: &OpenEntry| entry.inside.map(|(current, _)| current);
        let outermost = self.outermost.and_then(|place| self.entries.get(place)).and_then(current);
        // SAFETY: each entry has entered its cache in the name of this caller, and leaves it only after it was removed from `entries` and
        // this function was called again.
        unsafe { Current::set(self.entries.newest().and_then(current), outermost.map(|current| current.cache)) };
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
