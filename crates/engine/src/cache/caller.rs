//! A caller that several threads share: they enter the same scopes and use the same caches, one thread after the other.
//!
//! A framework runs one step on two threads: the program's thread, and one for the backward pass while the first one waits. Their
//! allocations have one order, so one cache should plan them. Each front end keeps such a caller under a lock, and each call runs in its
//! name. Code of the program that runs within such a call, for example a pressure handler, works in the name of its thread: it knows nothing
//! of the caller, and its scopes are those of the thread.
//!
//! Invariant: a caller is in one place: here while no thread works in its name, otherwise in the thread-local values of that thread. So is the
//! thread's own identity: it is in `OWN` while the thread works in the name of a caller.
#![allow(unsafe_code)]

use std::cell::Cell;

use super::current::{self, Serving};
use super::token::{is_shared, new_shared_token, replace_token};
use crate::base::errand::IN_OWN_NAME;
use crate::base::finally::finally;

/// The identity of a caller, and the scopes that it is inside of.
pub struct Caller {
    token: Cell<u64>,
    serving: Serving,
}

thread_local! {
    /// The thread's own identity, while it works in the name of a caller. It has no destructor, so it can be used while the thread ends.
    static OWN: Caller = const { Caller { token: Cell::new(0), serving: Serving::NOWHERE } };
}

impl Caller {
    /// A caller that is in no scope.
    #[allow(clippy::new_without_default, reason = "each caller is another one, which a default value does not suggest")]
    pub fn new() -> Caller {
        IN_OWN_NAME.get_or_init(|| in_own_name);
        Caller { token: Cell::new(new_shared_token()), serving: Serving::NOWHERE }
    }

    /// Runs `act` in the name of this caller: allocations come from its innermost scope, and its caches take blocks back.
    ///
    /// # Safety
    /// `act` may enter caches, leave them, and call [`Current::set`](super::Current::set) only for the entries of this caller, and all calls
    /// for these entries are made within this function. The thread works in its own name, and `act` does not call this function.
    #[inline]
    pub unsafe fn run<R>(&mut self, act: impl FnOnce() -> R) -> R {
        let caller: &Caller = self;
        OWN.with(|own| {
            own.take_from_thread(caller);
            // Puts the thread's own identity back, also after a panic.
            let _back = finally(|| caller.take_from_thread(own));
            act()
        })
    }

    /// Notes the present identity of the thread here, and gives the thread that of `next`.
    #[inline(always)]
    fn take_from_thread(&self, next: &Caller) {
        self.token.set(replace_token(next.token.get()));
        current::replace(&self.serving, &next.serving);
    }
}

/// Runs `act` in the thread's own name.
fn in_own_name(act: &mut dyn FnMut()) {
    if !is_shared() {
        return act();
    }
    OWN.with(|own| {
        let caller = Caller { token: Cell::new(0), serving: Serving::NOWHERE };
        caller.take_from_thread(own);
        let _back = finally(|| own.take_from_thread(&caller));
        act();
    });
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("token", &self.token).finish_non_exhaustive()
    }
}
