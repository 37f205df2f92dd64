//! The names of the caches in which a trace allocates: a scope has one for each thread that entered it.
//!
//! Some threads allocate in a scope that they never entered: the thread on which a framework computes gradients, for example. They share the
//! cache of the thread that is in the scope.

use std::collections::HashSet;

/// A scope and a thread.
type Cache = (String, String);

/// The scopes that threads entered so far.
#[derive(Debug, Default)]
pub(super) struct Caches {
    /// The entries that have not ended, the latest last.
    open: Vec<Cache>,
    entered: HashSet<Cache>,
}

impl Caches {
    /// A thread enters a scope. Returns the name of the cache.
    pub(super) fn enter(&mut self, scope: &str, thread: &str) -> String {
        let cache = (scope.to_owned(), thread.to_owned());
        self.open.push(cache.clone());
        self.entered.insert(cache);
        name(scope, thread)
    }

    /// A thread leaves a scope. Returns the name of the cache.
    pub(super) fn leave(&mut self, scope: &str, thread: &str) -> String {
        let left = self.open.iter().rposition(|(open, by)| open == scope && by == thread);
        left.into_iter().for_each(|place| _ = self.open.remove(place));
        name(scope, thread)
    }

    /// The name of the cache that serves a thread in a scope; `None` outside scopes.
    pub(super) fn serving(&self, scope: &str, thread: &str) -> Option<String> {
        if scope.is_empty() {
            return None;
        }
        let helped = self.open.iter().rev().find(|(open, _)| open == scope).map(|(_, by)| by.as_str());
        let is_own = helped == Some(thread) || self.entered.contains(&(scope.to_owned(), thread.to_owned()));
        Some(name(scope, helped.filter(|_| !is_own).unwrap_or(thread)))
    }
}

fn name(scope: &str, thread: &str) -> String {
    if thread == "0" { scope.to_owned() } else { format!("{scope} of thread {thread}") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_entered_no_scope_helps_one_that_did() {
        let mut caches = Caches::default();
        assert_eq!(caches.serving("step", "7").unwrap(), "step of thread 7", "the trace began inside the scope");
        caches.enter("step", "0");
        caches.enter("step", "2");
        for (thread, cache) in [("0", "step"), ("2", "step of thread 2"), ("7", "step of thread 2")] {
            assert_eq!(caches.serving("step", thread).unwrap(), cache);
        }
        caches.leave("step", "2");
        assert_eq!(caches.serving("step", "7").unwrap(), "step");
        assert_eq!(caches.serving("step", "2").unwrap(), "step of thread 2", "it did enter the scope");
        assert_eq!((caches.serving("", "0"), caches.serving("other", "0").unwrap()), (None, "other".to_owned()));
    }
}
