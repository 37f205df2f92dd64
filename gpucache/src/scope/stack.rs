//! The scopes that a thread is inside of, innermost last.
//!
//! Invariant: what [`current`] serves from is the top of this stack, and each entry on it has entered its cache once.
//! Guards may go in any order (a future that is dropped late, say): each takes out its own entry.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use hashbrown::HashMap;

use crate::cache::current::{self, Current};
use crate::cache::registry::Scope;
use crate::cache::{Cache, Recycle};
use crate::device::{process_exits_now, thread_is_main};

/// Inside a scope (or outside all of them, for `uncached!`) until dropped, on one thread.
#[must_use = "the scope is left when the guard is dropped"]
#[derive(Debug)]
pub struct Guard {
    /// Names the entry on the stack; `None` if the thread is too far into its end to have one.
    entry: Option<u64>,
    this_thread: PhantomData<*const ()>,
}

struct Entry {
    id: u64,
    current: Option<Current>,
}

#[derive(Default)]
struct Stack {
    entries: RefCell<Vec<Entry>>,
    next_id: Cell<u64>,
    /// This thread's caches by name, found without a lock.
    caches: RefCell<HashMap<&'static str, (&'static Scope, &'static Cache)>>,
}

thread_local! {
    static STACK: Stack = Stack::default();
}

/// Enters the scope `name`; what is allocated on this thread until the guard goes comes from its cache.
pub fn enter(name: &str, recycle: Recycle) -> Guard {
    Guard::of(|stack| {
        let cache = stack.cache(name);
        cache.enter(recycle);
        stack.push(Some(Current { cache, recycle }))
    })
}

/// Leaves all scopes until the guard goes.
pub fn uncached() -> Guard {
    Guard::of(|stack| stack.push(None))
}

impl Guard {
    fn of(push: impl FnOnce(&Stack) -> u64) -> Guard {
        Guard { entry: STACK.try_with(push).ok(), this_thread: PhantomData }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(id) = self.entry {
            // Without a stack the thread has ended, which has left all scopes.
            let _ = STACK.try_with(|stack| stack.remove(id));
        }
    }
}

impl Stack {
    fn cache(&self, name: &str) -> &'static Cache {
        let known = self.caches.borrow().get(name).map(|&(_, cache)| cache);
        known.unwrap_or_else(|| {
            let scope = Scope::of(name);
            let cache = scope.adopt();
            self.caches.borrow_mut().insert(scope.name(), (scope, cache));
            cache
        })
    }

    fn push(&self, current: Option<Current>) -> u64 {
        let id = self.next_id.replace(self.next_id.get() + 1);
        self.entries.borrow_mut().push(Entry { id, current });
        self.serve_from_top();
        id
    }

    fn remove(&self, id: u64) {
        let mut entries = self.entries.borrow_mut();
        let Some(place) = entries.iter().rposition(|entry| entry.id == id) else { return };
        let left = entries.remove(place);
        drop(entries);
        self.serve_from_top();
        if let Some(Current { cache, .. }) = left.current {
            cache.leave();
        }
    }

    fn serve_from_top(&self) {
        let top = self.entries.borrow().last().and_then(|entry| entry.current);
        // SAFETY: an entry entered its cache before it came onto the stack, and leaves it after it was taken off and
        // this was called again.
        unsafe { current::set(top) };
    }
}

impl Drop for Stack {
    /// The end of the thread: its caches wait for the next one, and what is busy goes back there when it is dropped.
    fn drop(&mut self) {
        // SAFETY: nobody serves this thread any more.
        unsafe { current::set(None) };
        if thread_is_main() {
            return process_exits_now();
        }
        self.caches.borrow().values().for_each(|(scope, cache)| scope.orphan(cache));
    }
}
