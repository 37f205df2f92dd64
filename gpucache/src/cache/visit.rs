//! A cache that a thread holds for a moment while nobody is inside the scope: to take blocks back, to invalidate, to give memory back.
//!
//! The thread that the cache belongs to waits for that when it enters the scope. So it is a lock, and no code of the program runs under
//! it. What a subscriber of `tracing` is to be told waits until the cache is given up.

#[cfg(feature = "tracing")]
use std::cell::{Cell, RefCell};
use std::ops::Deref;

#[cfg(feature = "tracing")]
use super::heard::Heard;
use super::owner::{Cache, Owner};
use crate::base::held::Held;

/// The calling thread holds a cache for a moment, or is inside of its scope anyway.
pub(super) struct Visit {
    owner: Owner,
    _momentary: Option<Momentary>,
}

impl Deref for Visit {
    type Target = Owner;

    fn deref(&self) -> &Owner {
        &self.owner
    }
}

impl Visit {
    /// Of a cache that the calling thread holds.
    pub(super) fn of(owner: Owner) -> Visit {
        let momentary = (!owner.is_entered()).then(Momentary::begin);
        Visit { owner, _momentary: momentary }
    }

    /// Undoes one [`hold_unless_entered`](Cache::hold_unless_entered).
    pub(super) fn exit(self) {
        let Visit { owner, _momentary } = self;
        owner.exit();
    }
}

#[cfg(feature = "tracing")]
thread_local! {
    /// How many caches the thread holds for a moment.
    static MOMENTARY: Cell<usize> = const { Cell::new(0) };
    static KEPT: RefCell<Vec<Heard>> = const { RefCell::new(Vec::new()) };
}

/// A cache is held for a moment while this lives, and given up before it goes.
pub(super) struct Momentary(Option<Held>);

impl Momentary {
    pub(super) fn begin() -> Momentary {
        #[cfg(feature = "tracing")]
        MOMENTARY.set(MOMENTARY.get() + 1);
        Momentary(Some(Held::begin()))
    }
}

impl Drop for Momentary {
    fn drop(&mut self) {
        drop(self.0.take());
        #[cfg(feature = "tracing")]
        {
            MOMENTARY.set(MOMENTARY.get() - 1);
            if MOMENTARY.get() == 0 {
                KEPT.try_with(RefCell::take).unwrap_or_default().iter().for_each(Heard::tell);
            }
        }
    }
}

/// Tells a subscriber, once the thread holds no cache for a moment any more.
#[cfg(feature = "tracing")]
pub(super) fn tell(heard: Heard) {
    match MOMENTARY.get() {
        0 => heard.tell(),
        // A thread that ends tells nothing.
        _ => _ = KEPT.try_with(|kept| kept.borrow_mut().push(heard)),
    }
}

impl Cache {
    /// The proof that the calling thread owns the cache, for the moment, if no thread is inside the scope. Waits for others that hold it
    /// for a moment.
    pub(super) fn hold_unless_entered(&'static self) -> Option<Visit> {
        if self.try_to_hold() { self.owner().map(Visit::of) } else { None }
    }
}
