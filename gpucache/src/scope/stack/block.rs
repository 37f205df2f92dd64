//! Entries of captured scopes. A captured scope runs a block, and the scopes that the block enters are parts of the captured scope.

use std::panic::Location;

#[cfg(feature = "tracing")]
use super::Shown;
use super::{STACK, ScopeGuard, Stack};
use gpucache_engine::base::finally::finally;
use gpucache_engine::cache::{Cache, Current, Terms};
use gpucache_engine::home::Visit;

/// Returns the value before.
fn set_in_block(is_in_block: bool) -> bool {
    STACK.try_with(|stack| stack.is_in_block.replace(is_in_block)).unwrap_or(false)
}

impl ScopeGuard {
    /// Enters the scope `name` for an iteration of a captured scope, whose stream nobody else captures. Also returns the scope's cache.
    #[inline]
    pub(crate) fn enter_captured(
        name: &str,
        site: &'static Location<'static>,
        (terms, visit): (Terms, Visit),
    ) -> (ScopeGuard, Option<&'static Cache>) {
        let guard = ScopeGuard::enter(name, site, (terms, None), visit);
        (guard, ScopeGuard::innermost().map(|current| current.cache))
    }

    /// Runs a launch of a graph of the scope `name`, which allocates nothing. The scope around it serves allocations of the thread meanwhile. So
    /// this takes less time than [`enter_captured`](ScopeGuard::enter_captured). `alone` does the launch without an entry, if that is
    /// possible. Otherwise `inside` does it in an entry, if it can. `None` if the thread is ending.
    #[inline]
    pub(crate) fn launch_captured<R>(
        name: &str,
        site: &'static Location<'static>,
        alone: impl FnOnce() -> Option<R>,
        inside: impl FnOnce(&'static Cache) -> Option<R>,
    ) -> Option<R> {
        #[cfg(feature = "tracing")]
        let _shown = Shown::begin(name);
        alone().or_else(|| ScopeGuard::visit_captured(name, site, inside))
    }

    /// Runs a launch in an entry that the thread's stack of scopes does not have.
    #[inline(never)]
    fn visit_captured<R>(
        name: &str,
        site: &'static Location<'static>,
        inside: impl FnOnce(&'static Cache) -> Option<R>,
    ) -> Option<R> {
        let cache = STACK.try_with(|stack| stack.cache(name, site)).ok()?;
        let entry = cache.enter_to_launch();
        cache.note_entered();
        let _visited = finally(|| {
            super::leave_unlisted(cache, entry);
            cache.note_left();
        });
        inside(cache)
    }

    /// The innermost scope of the thread.
    pub(crate) fn innermost() -> Option<Current> {
        STACK.try_with(|stack| stack.open.borrow().innermost()).ok().flatten()
    }

    /// Serves from a scope in which the thread still is, or from none, until the guard is dropped.
    pub(crate) fn back_in(scope: Option<Current>) -> ScopeGuard {
        ScopeGuard::of(|stack| stack.push_again(scope))
    }

    /// Runs the block of a captured scope.
    pub(crate) fn run_block<R>(block: impl FnOnce() -> R) -> R {
        let before = set_in_block(true);
        let _reset = finally(|| _ = set_in_block(before));
        block()
    }

    /// Whether the thread runs the block of a captured scope.
    pub(crate) fn is_in_block() -> bool {
        STACK.try_with(|stack| stack.is_in_block.get()).unwrap_or(false)
    }
}

impl Stack {
    /// Enters the innermost scope once more.
    #[cold]
    pub(super) fn enter_again(&self) -> usize {
        let innermost = self.open.borrow().innermost();
        self.push_again(innermost)
    }

    #[inline(never)]
    fn push_again(&self, scope: Option<Current>) -> usize {
        let again = |current: Current| {
            let entry = current.cache.enter(current.terms, Visit::Again);
            // The end of any entry is in a trace.
            current.cache.note_entered();
            (current, entry)
        };
        self.push(scope.map(again), None)
    }
}
