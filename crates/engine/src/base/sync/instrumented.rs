//! Std's cells, with an atomic beside each that tells ThreadSanitizer which accesses it orders, and the atomic beside a lock.
//!
//! The sanitizer learns orders from atomics in code that was compiled with it, and std was not. So it does not see the order of a lock that
//! a thread waited for. A thread that releases a lock therefore stores into the atomic first, and a thread that acquired it loads the
//! atomic. Only programs built with `--cfg gpucache_tsan` use these types. They behave like std's and have only those methods of std's that
//! are used. The tests of the workspace include this file for their own use.
#![allow(missing_docs, unreachable_pub)]

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::thread::yield_now;

/// An order between threads: everything before a `leave` happens before everything after a later `enter`.
#[derive(Debug, Default)]
pub(super) struct Gate(AtomicBool);

impl Gate {
    pub(super) const fn new() -> Gate {
        Gate(AtomicBool::new(false))
    }

    pub(super) fn enter(&self) {
        self.0.load(Acquire);
    }

    pub(super) fn leave(&self) {
        self.0.store(true, Release);
    }

    /// Waits for the only `leave` of this gate, which is about to happen.
    fn follow(&self) {
        while !self.0.load(Acquire) {
            yield_now();
        }
    }
}

/// Like [`std::sync::OnceLock`]. A thread that finds the value waits until the thread that made it has left the gate.
#[derive(Debug)]
pub struct OnceLock<T> {
    made: Gate,
    cell: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    pub const fn new() -> OnceLock<T> {
        OnceLock { made: Gate::new(), cell: std::sync::OnceLock::new() }
    }

    pub fn get(&self) -> Option<&T> {
        self.cell.get().inspect(|_| self.made.follow())
    }

    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.cell.get_mut()
    }

    pub fn set(&self, value: T) -> Result<(), T> {
        self.cell.set(value).inspect(|()| self.made.leave())
    }

    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let mut is_maker = false;
        let value = self.cell.get_or_init(|| {
            is_maker = true;
            make()
        });
        match is_maker {
            true => self.made.leave(),
            false => self.made.follow(),
        }
        value
    }

    pub fn into_inner(self) -> Option<T> {
        self.cell.into_inner().inspect(|_| self.made.follow())
    }

    pub fn take(&mut self) -> Option<T> {
        self.made = Gate::new();
        self.cell.take()
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> OnceLock<T> {
        OnceLock { made: Gate(AtomicBool::new(true)), cell: value.into() }
    }
}

/// Like [`std::sync::LazyLock`].
pub struct LazyLock<T> {
    cell: OnceLock<T>,
    make: fn() -> T,
}

impl<T> LazyLock<T> {
    pub const fn new(make: fn() -> T) -> LazyLock<T> {
        LazyLock { cell: OnceLock::new(), make }
    }
}

impl<T> Deref for LazyLock<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.cell.get_or_init(self.make)
    }
}
