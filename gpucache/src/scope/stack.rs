//! The scopes that a thread is inside of, the innermost last.
//!
//! Invariants: `current` serves from the top of this stack, and each entry on the stack has entered its cache once.
//! Guards may be dropped in any order (a future may be dropped late), and each removes its own entry. An entry costs the same however
//! many are open; forgotten guards leave entries open.
#![allow(unsafe_code)]

mod block;

use std::cell::{Cell, RefCell, RefMut};
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashMap;

#[cfg(feature = "tracing")]
use super::shown::Shown;
use crate::offload::{Placement, end_thread, forget_scope, set_scoped};
use crate::stats;
use gpucache_engine::base::opened::Opened;
use gpucache_engine::cache::{Cache, Current, NamedCaches, Terms};
use gpucache_engine::device::exits_with_thread;
use gpucache_engine::home::Visit;

/// Keeps the thread inside a scope, or outside of all scopes, until it is dropped. It cannot leave its thread.
///
/// Guards may be dropped in any order: each ends its own entry. After `mem::forget` of a guard, the thread stays in the scope until the
/// thread ends.
///
/// ```
/// use gpucache::{Scope, prelude::*};
///
/// let frame = Scope::new("frame");
/// let inside = frame.enter();
/// drop(Host::new().zeros::<u8>(4096)?); // of the scope
/// drop(inside);
/// drop(Host::new().zeros::<u8>(4096)?); // of none
/// assert_eq!(frame.stats().unwrap().misses, 1);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[must_use = "the scope is left when the guard is dropped: bind it to a name, `let _inside = ..`, as `let _ = ..` drops it at once"]
#[derive(Debug)]
pub struct ScopeGuard {
    /// The place of the entry on the stack. No other entry gets it before this one ends. `None` if the thread is ending and has no stack.
    entry: Option<usize>,
    /// Ends after the scope is left. `None` if no tool would show it.
    #[cfg(feature = "tracing")]
    _shown: Option<Shown>,
    this_thread: PhantomData<*const ()>,
}

/// An open entry: `None` outside of all scopes, and where arrays that are placed inside rest. That is the placement of this entry, or else
/// of the entry around it, and always `None` outside of all scopes.
type Entry = (Option<Inside>, Option<Placement>);

/// An entry of a scope, and the number by which its cache knows it.
type Inside = (Current, usize);

/// The entries that are open.
#[derive(Default)]
struct Open {
    entries: Opened<Entry>,
    /// The place of the outermost entry of a scope, and its cache. The entry of `auto` is none.
    outermost: Option<(usize, &'static Cache)>,
}

#[derive(Default)]
struct Stack {
    open: RefCell<Open>,
    /// This thread's caches by name. Finding one takes no lock.
    caches: RefCell<HashMap<Arc<str>, Rc<Known>>>,
    /// The two names that were entered last, the latest first. One of them is often the next one too, and then no hash is computed.
    last: RefCell<[Option<Rc<Known>>; 2]>,
    /// How many names this thread ever got a new cache for.
    names: Cell<u64>,
    /// Once there are so many names, the thread forgets those that it did not enter lately.
    look_at: Cell<usize>,
    /// Whether the thread runs the block of a captured scope. Scopes that the block enters are then parts of the captured scope.
    is_in_block: Cell<bool>,
}

/// A name for which this thread has a cache.
struct Known {
    scope: Arc<NamedCaches>,
    cache: &'static Cache,
    /// The number of names when it was entered last.
    entered: Cell<u64>,
}

impl Known {
    /// Gives up the cache, which this thread is not inside, if no array of it is alive, and the order of fetches in it. Returns whether it did.
    fn forget(&self) -> bool {
        let is_forgotten = self.scope.forget(self.cache);
        if is_forgotten {
            forget_scope(std::ptr::from_ref(self.cache) as usize);
        }
        is_forgotten
    }

    /// Gives the cache, which this thread is not inside, to the next thread that enters the scope.
    fn orphan(&self) {
        // SAFETY: the engine serves only from entries of the stack, and none of them is of this cache.
        unsafe { Current::orphan(self.cache, &self.scope) };
    }
}

/// Ends an entry that the stack does not have, in the function that began it.
fn leave_unlisted(cache: &'static Cache, entry: usize) {
    // SAFETY: the caller got this entry from `enter_to_launch`, and calls this once.
    unsafe { cache.leave_after_launch(entry) };
}

thread_local! {
    static STACK: Stack = Stack::default();
}

impl ScopeGuard {
    /// Enters the scope `name`: until the guard is dropped, this thread's allocations come from its cache. `site` is kept if the thread has
    /// no cache for the name yet.
    pub(super) fn enter(
        name: &str,
        site: &'static Location<'static>,
        (terms, placement): (Terms, Option<Placement>),
        visit: Visit,
    ) -> ScopeGuard {
        #[cfg(feature = "tracing")]
        let shown = Shown::begin(name);
        let guard = ScopeGuard::of(|stack| stack.begin(name, site, (terms, placement), visit));
        #[cfg(feature = "tracing")]
        let guard = guard.showing(shown);
        guard
    }

    /// As [`enter`](ScopeGuard::enter), without a span.
    pub(super) fn enter_unshown(name: &str, site: &'static Location<'static>) -> ScopeGuard {
        ScopeGuard::of(|stack| stack.begin(name, site, (Terms::default(), None), Visit::Entry))
    }

    /// The same guard, with what other tools show of the entry.
    #[cfg(feature = "tracing")]
    fn showing(mut self, shown: Option<Shown>) -> ScopeGuard {
        self._shown = shown;
        self
    }

    /// Leaves all scopes until the guard is dropped: arrays are plain allocations, which are freed when they are dropped.
    /// [`uncached!`](crate::uncached) does the same for a block.
    ///
    /// Do not hold the guard across an `.await`: other tasks of the thread would run outside of their scopes.
    ///
    /// ```
    /// use gpucache::{Scope, ScopeGuard, prelude::*};
    ///
    /// let load = Scope::new("load");
    /// let inside = load.enter();
    /// let outside = ScopeGuard::outside();
    /// let weights = Array::<f32, _>::zeros(&Host::new(), 64)?;
    /// drop((outside, inside));
    /// assert_eq!(load.stats().unwrap().misses, 0);
    /// # drop(weights);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn outside() -> ScopeGuard {
        ScopeGuard::of(|stack| stack.push(None, None))
    }

    /// Forgets this thread's cache of the name, with its statistics, unless the thread is inside the scope or an array of it is alive.
    pub(super) fn forget(name: &str) {
        // A thread without a stack is ending, and its caches go anyway.
        let _ = STACK.try_with(|stack| stack.forget(name));
    }

    /// Leaves out the only open entry, which never ends, where the outermost one is asked for.
    pub(super) fn leave_out() {
        let _ = STACK.try_with(|stack| {
            let mut open = stack.open.borrow_mut();
            open.outermost = None;
            let (top, placement) = (open.innermost(), open.placement());
            stack.serve_from(open, top, placement);
        });
    }

    /// Whether the thread has any open entry, inside or outside of scopes, or cannot have one because it is ending.
    pub(super) fn is_any() -> bool {
        STACK.try_with(|stack| stack.open.try_borrow().is_ok_and(|open| open.entries.is_empty())) != Ok(true)
    }

    fn of(push: impl FnOnce(&Stack) -> usize) -> ScopeGuard {
        ScopeGuard {
            entry: STACK.try_with(push).ok(),
            #[cfg(feature = "tracing")]
            _shown: None,
            this_thread: PhantomData,
        }
    }
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        if let Some(place) = self.entry {
            // A thread without a stack is ending, and has left all scopes.
            let _ = STACK.try_with(|stack| stack.remove(place));
        }
    }
}

impl Stack {
    // Inlined for the entries that have a span, which are all but one of each thread.
    #[inline(always)]
    fn begin(
        &self,
        name: &str,
        site: &'static Location<'static>,
        by: (Terms, Option<Placement>),
        visit: Visit,
    ) -> usize {
        if self.is_in_block.get() {
            return self.enter_again();
        }
        let (cache, (terms, placement)) = (self.cache(name, site), by);
        let entry = cache.enter(terms, visit);
        cache.note_entered();
        self.push(Some((Current { cache, terms }, entry)), placement)
    }

    // Inlined, although captured scopes call it too: see `push`.
    #[inline(always)]
    fn cache(&self, name: &str, site: &'static Location<'static>) -> &'static Cache {
        self.newest(name).unwrap_or_else(|| self.find(name, site))
    }

    /// The cache of this name, if the name is the first of `last`.
    #[inline(always)]
    fn newest(&self, name: &str) -> Option<&'static Cache> {
        let last = self.last.borrow();
        let known = last[0].as_ref().filter(|known| **known.scope.name() == *name)?;
        known.entered.set(self.names.get());
        Some(known.cache)
    }

    fn find(&self, name: &str, site: &'static Location<'static>) -> &'static Cache {
        self.last.borrow_mut().swap(0, 1);
        if let Some(cache) = self.newest(name) {
            return cache;
        }
        let Some(known) = self.caches.borrow().get(name).cloned() else { return self.add(name, site) };
        known.entered.set(self.names.get());
        let cache = known.cache;
        // The place of the older one, since the two were swapped.
        let older = self.last.borrow_mut()[0].replace(known);
        drop(older);
        cache
    }

    /// Gets a cache for a name for which this thread has none.
    #[cold]
    fn add(&self, name: &str, site: &'static Location<'static>) -> &'static Cache {
        if self.caches.borrow().len() >= self.look_at.get().max(NamedCaches::FEW) {
            self.forget_names();
        }
        stats::start_from_environment();
        let (scope, cache) = NamedCaches::adopt(name, Some(site));
        self.names.set(self.names.get() + 1);
        self.keep(Rc::new(Known { scope, cache, entered: Cell::new(self.names.get()) }))
    }

    /// Keeps a cache as the thread's cache of its name, unless the thread got another one meanwhile. Returns the one that it has.
    fn keep(&self, known: Rc<Known>) -> &'static Cache {
        let name = known.scope.name().clone();
        let newer = self.caches.borrow().get(&name).map(|newer| newer.cache);
        if let Some(newer) = newer {
            // This runs code of the program, which may enter scopes: nothing is borrowed here.
            known.orphan();
            return newer;
        }
        let cache = known.cache;
        self.caches.borrow_mut().insert(name, known);
        cache
    }

    /// Returns the caches of names that were not entered lately, if none of their arrays is alive.
    fn forget_names(&self) {
        let before = self.names.get().saturating_sub(NamedCaches::LATELY);
        // Releasing may run code of the program, which may enter scopes: nothing is borrowed here.
        drop(self.last.take());
        let is_due = |known: &Known| known.entered.get() < before && !known.cache.is_entered();
        let due: Vec<_> = self.caches.borrow_mut().extract_if(|_, known| is_due(known)).collect();
        for (_, known) in due {
            if !known.forget() {
                self.keep(known);
            }
        }
        // The next look comes once the number of names has doubled, so that each name is looked at a bounded number of times.
        self.look_at.set(2 * self.caches.borrow().len());
    }

    fn forget(&self, name: &str) {
        // Releasing may run code of the program, which may enter scopes: nothing is borrowed here.
        drop(self.last.take());
        let Some(known) = self.caches.borrow_mut().remove(name) else { return };
        if known.cache.is_entered() || !known.forget() {
            self.keep(known);
        }
    }

    // Inlined, although captured scopes call it too: a call costs each entry a tenth.
    #[inline(always)]
    fn push(&self, inside: Option<Inside>, placement: Option<Placement>) -> usize {
        let mut open = self.open.borrow_mut();
        let top = inside.map(|(current, _)| current);
        // Read before the entry is pushed: a load directly after the store would wait for it.
        let inherited = if top.is_some() { open.placement() } else { None };
        let placement = placement.or(inherited);
        let place = open.push(inside, placement);
        self.serve_from(open, top, placement);
        place
    }

    fn remove(&self, place: usize) {
        let mut open = self.open.borrow_mut();
        let Some(left) = open.remove(place) else { return };
        let (top, placement) = (open.innermost(), open.placement());
        self.serve_from(open, top, placement);
        if let Some((Current { cache, .. }, entry)) = left {
            // SAFETY: the stack had the entry, and has it no more. `serve_from` has named the innermost entry that is left.
            unsafe { cache.leave(entry) };
            cache.note_left();
        }
    }

    /// Serves from the innermost entry; `top` and `placement` are its values. Inlined, so that the values that were just pushed are not read
    /// from the stack again: a load that is wider than the stores before it waits for them.
    #[inline(always)]
    fn serve_from(&self, open: RefMut<'_, Open>, top: Option<Current>, placement: Option<Placement>) {
        let bottom = open.outermost.map(|(_, cache)| cache);
        drop(open);
        set_scoped(placement);
        // SAFETY: an entry has entered its cache before it is pushed. It leaves the cache only after it was removed and this function
        // was called again: by its guard, or at the end of its cache's thread.
        unsafe { Current::set(top, bottom) };
    }
}

impl Open {
    #[inline(always)]
    fn push(&mut self, inside: Option<Inside>, placement: Option<Placement>) -> usize {
        let cache = inside.map(|(current, _)| current.cache);
        let place = self.entries.push((inside, placement));
        if self.outermost.is_none() {
            self.outermost = cache.map(|cache| (place, cache));
        }
        place
    }

    /// Removes an entry, if it is there.
    fn remove(&mut self, place: usize) -> Option<Option<Inside>> {
        if self.outermost.is_some_and(|(outermost, _)| outermost == place) {
            self.outermost = self.next_inside(place);
        }
        self.entries.remove(place).map(|(inside, _)| inside)
    }

    /// The next entry of a scope after this one. The entries outside of scopes that it skips are never looked at again, since the outermost
    /// entry is newer than they are from now on.
    fn next_inside(&self, place: usize) -> Option<(usize, &'static Cache)> {
        let mut newer = std::iter::successors(self.entries.after(place), |&place| self.entries.after(place));
        newer.find_map(|place| Some((place, self.entries.get(place)?.0?.0.cache)))
    }

    fn innermost(&self) -> Option<Current> {
        self.entries.newest()?.0.map(|(current, _)| current)
    }

    /// Where arrays that are placed now rest, if a scope says it.
    fn placement(&self) -> Option<Placement> {
        self.entries.newest()?.1
    }
}

impl Drop for Stack {
    /// The end of the thread. Its caches wait for the next thread, and live arrays return to them when they are dropped.
    fn drop(&mut self) {
        // From here on no cache serves this thread.
        drop(self.open.take());
        self.serve_from(self.open.borrow_mut(), None, None);
        if exits_with_thread() {
            return;
        }
        // Releasing may run code of the program, which may enter scopes without effect.
        drop(self.last.take());
        let caches = std::mem::take(&mut *self.caches.borrow_mut());
        caches.into_values().for_each(|known| known.orphan());
        end_thread();
    }
}
