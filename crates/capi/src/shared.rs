//! A caller with its scopes and streams, behind a lock.
//!
//! Invariant: the engine's caller runs only under the lock, so one thread at a time works in its name.
#![allow(unsafe_code)]

use gpucache_engine::cache::Caller;
use parking_lot::Mutex;

use crate::scopes::Scopes;
use crate::streams::KnownStreams;

/// A caller that threads can share.
pub(crate) struct SharedCaller(Mutex<State>);

struct State {
    caller: Caller,
    inside: Inside,
}

/// What a caller has, for a thread that works in its name.
pub(crate) struct Inside {
    pub(crate) scopes: Scopes,
    pub(crate) streams: KnownStreams,
}

impl SharedCaller {
    /// Makes a caller, which lives as long as the process.
    pub(crate) fn leak() -> &'static SharedCaller {
        let inside = Inside { scopes: Scopes::default(), streams: KnownStreams::default() };
        Box::leak(Box::new(SharedCaller(Mutex::new(State { caller: Caller::new(), inside }))))
    }

    /// Runs `act` in the name of this caller.
    #[inline]
    pub(crate) fn call<R>(&self, act: impl FnOnce(&mut Inside) -> R) -> R {
        let State { caller, inside } = &mut *self.0.lock();
        // SAFETY: `inside.scopes` is the only code of this crate that enters and leaves caches, and it is reached only here. So all of its
        // entries are made, and ended, in the name of this caller.
        unsafe { caller.run(|| act(inside)) }
    }
}
