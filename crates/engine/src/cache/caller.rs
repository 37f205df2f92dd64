//! A caller that several threads share: they enter the same scopes and use the same caches, one thread after the other.
//!
//! A framework runs one step on two threads: the program's thread, and one for the backward pass while the first one waits. Their
//! allocations have one order, so one cache should plan them. Each front end keeps such a caller under a lock, and each call runs in its
//! name.
//!
//! Invariant: a caller is in one place: here while no thread works in its name, otherwise in the thread-local values of that thread.
#![allow(unsafe_code)]

use super::current::{self, Serving};
use super::token::{new_shared_token, replace_token};
use crate::base::finally::finally;

/// The identity of a caller, and the scopes that it is inside of.
pub struct Caller {
    token: u64,
    serving: Serving,
}

impl Caller {
    /// A caller that is in no scope.
    #[allow(clippy::new_without_default, reason = "each caller is another one, which a default value does not suggest")]
    pub fn new() -> Caller {
        Caller { token: new_shared_token(), serving: Serving::NOWHERE }
    }

    /// Runs `act` in the name of this caller: allocations come from its innermost scope, and its caches take blocks back.
    ///
    /// # Safety
    /// `act` may enter caches, leave them, and call [`Current::set`](super::Current::set) only for the entries of this caller, and all calls
    /// for these entries are made within this function.
    #[inline]
    pub unsafe fn run<R>(&mut self, act: impl FnOnce() -> R) -> R {
        self.exchange();
        // Puts the thread's own identity back, also after a panic.
        let _back = finally(|| self.exchange());
        act()
    }

    /// Exchanges the identity of the thread and that of this value.
    #[inline(always)]
    fn exchange(&mut self) {
        self.token = replace_token(self.token);
        current::exchange(&mut self.serving);
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("token", &self.token).finish_non_exhaustive()
    }
}
