//! A caller that several threads share: they enter the same scopes and use the same caches, one thread after the other.
//!
//! A framework runs one step on two threads: the program's thread, and one for the backward pass while the first one waits. Their
//! allocations have one order, so one cache should plan them. Each front end keeps such a caller under a lock, and each call runs in its
//! name. Code of the program that runs within such a call, for example a pressure handler, works in the name of its thread: it knows nothing
//! of the caller, and its scopes are those of the thread.
//!
//! Invariant: a caller is in one place: here while no thread works in its name, otherwise in the thread-local values of that thread. So is the
//! thread's own identity: it is in `HERE.own` while the thread works in the name of a caller.
#![allow(unsafe_code)]

use super::current::{HERE, Identity};
use super::token::{is_shared, new_shared_token};
use crate::base::errand::IN_OWN_NAME;
use crate::base::finally::finally;

/// The identity of a caller, and the scopes that it is inside of.
pub struct Caller(Identity);

impl Caller {
    /// A caller that is in no scope.
    #[allow(clippy::new_without_default, reason = "each caller is another one, which a default value does not suggest")]
    pub fn new() -> Caller {
        IN_OWN_NAME.get_or_init(|| in_own_name);
        Caller(Identity::of(new_shared_token()))
    }

    /// Runs `act` in the name of this caller: allocations come from its innermost scope, and its caches take blocks back.
    ///
    /// # Safety
    /// `act` may enter caches, leave them, and call [`Current::set`](super::Current::set) only for the entries of this caller, and all calls
    /// for these entries are made within this function. The thread works in its own name, and `act` does not call this function.
    #[inline]
    pub unsafe fn run<R>(&mut self, act: impl FnOnce() -> R) -> R {
        let Caller(caller) = self;
        HERE.with(|here| {
            here.own.take_from_thread(caller);
            // Puts the thread's own identity back, also after a panic.
            let _back = finally(|| caller.take_from_thread(&here.own));
            act()
        })
    }
}

/// Runs `act` in the thread's own name.
fn in_own_name(act: &mut dyn FnMut()) {
    if !is_shared() {
        return act();
    }
    HERE.with(|here| {
        let caller = Identity::of(0);
        caller.take_from_thread(&here.own);
        let _back = finally(|| here.own.take_from_thread(&caller));
        act();
    });
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("token", &self.0.token).finish_non_exhaustive()
    }
}
