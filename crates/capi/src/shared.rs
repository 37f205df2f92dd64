//! A caller with its scopes and streams, behind a lock.
//!
//! Invariant: the engine's caller runs only under the lock, so one thread at a time works in its name.
//!
//! A Rust program in the same process may have registered handlers of shortages. They run within an allocation, and may call this crate. The
//! thread is *busy* then: such a call takes no lock, and uses nothing of the caller. What it allocates is of the thread's own scopes.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::time::Duration;

use gpucache_engine::base::finally::finally;
use gpucache_engine::cache::Caller;
use parking_lot::Mutex;

use crate::scopes::Scopes;
use crate::streams::KnownStreams;

thread_local! {
    // Has no destructor, so it can be read while the thread ends.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Whether the thread works in the name of a caller now.
#[inline]
pub(crate) fn is_busy() -> bool {
    IS_BUSY.get()
}

/// A request that finds memory takes less than this. A request that waits for work takes longer, and may need the block that this thread frees.
const LONG: Duration = Duration::from_millis(20);

/// A caller that threads can share.
pub(crate) struct SharedCaller(Mutex<State>);

struct State {
    caller: Caller,
    inside: Inside,
}

/// The scopes and streams of a caller, for a thread that works in its name.
pub(crate) struct Inside {
    pub(crate) scopes: Scopes,
    pub(crate) streams: KnownStreams,
    /// Whether the caller's thread has ended. The caller stays while a helper is inside a scope in its name.
    pub(crate) is_left: bool,
}

impl SharedCaller {
    /// Makes a caller, which lives as long as the process.
    pub(crate) fn leak() -> &'static SharedCaller {
        let inside = Inside { scopes: Scopes::default(), streams: KnownStreams::default(), is_left: false };
        Box::leak(Box::new(SharedCaller(Mutex::new(State { caller: Caller::new(), inside }))))
    }

    /// Runs `act` in the name of this caller. The thread must not be busy.
    #[inline]
    pub(crate) fn call<R>(&self, act: impl FnOnce(&mut Inside) -> R) -> R {
        SharedCaller::run(&mut self.0.lock(), act)
    }

    /// As [`call`](SharedCaller::call). `None` if another thread works in the name of this caller for long: its request may wait for memory.
    #[inline]
    pub(crate) fn call_soon<R>(&self, act: impl FnOnce(&mut Inside) -> R) -> Option<R> {
        self.0.try_lock_for(LONG).map(|mut state| SharedCaller::run(&mut state, act))
    }

    #[inline]
    fn run<R>(State { caller, inside }: &mut State, act: impl FnOnce(&mut Inside) -> R) -> R {
        IS_BUSY.set(true);
        let _busy = finally(|| IS_BUSY.set(false));
        // SAFETY: `inside.scopes` is the only code of this crate that enters and leaves caches, and it is reached only here. So all of its
        // entries are made, and ended, in the name of this caller. A thread that is busy does not call this, so no call is within another.
        unsafe { caller.run(|| act(inside)) }
    }
}
