//! Std's locks and cells. Each has an atomic beside it that tells ThreadSanitizer which accesses it orders.
//!
//! The sanitizer learns orders from atomics in code that was compiled with it, and std was not. So it does not see the order of a lock that
//! a thread waited for. A thread that releases a lock therefore stores into the atomic first, and a thread that acquired it loads the
//! atomic. Only programs built with `--cfg gpucache_tsan` use these types. They behave like std's and have only those methods of std's that
//! are used. The tests of the workspace include this file for their own use.
#![allow(missing_docs, unreachable_pub)]

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult};
use std::thread::yield_now;
use std::time::Duration;

/// An order between threads: everything before a `leave` happens before everything after a later `enter`.
#[derive(Debug, Default)]
struct Gate(AtomicBool);

/// Leaves the gate when it is dropped.
#[derive(Debug)]
struct Inside<'a>(&'a Gate);

impl Gate {
    const fn new() -> Gate {
        Gate(AtomicBool::new(false))
    }

    fn enter(&self) -> Inside<'_> {
        self.0.load(Acquire);
        Inside(self)
    }

    fn leave(&self) {
        self.0.store(true, Release);
    }

    /// Waits for the only `leave` of this gate, which is about to happen.
    fn follow(&self) {
        while !self.0.load(Acquire) {
            yield_now();
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Like [`std::sync::Mutex`].
#[derive(Debug, Default)]
pub struct Mutex<T> {
    gate: Gate,
    lock: std::sync::Mutex<T>,
}

/// Like [`std::sync::MutexGuard`]. The gate is left first, while the lock is still held.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    inside: Inside<'a>,
    held: std::sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    pub const fn new(contents: T) -> Mutex<T> {
        Mutex { gate: Gate::new(), lock: std::sync::Mutex::new(contents) }
    }

    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        guard(&self.gate, self.lock.lock())
    }

    // Some crates that include this file do not call `try_lock`.
    #[allow(dead_code)]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.lock.try_lock() {
            Ok(held) => Ok(MutexGuard { inside: self.gate.enter(), held }),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(held)) => Err(TryLockError::Poisoned(PoisonError::new(MutexGuard {
                inside: self.gate.enter(),
                held: held.into_inner(),
            }))),
        }
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.lock.get_mut()
    }
}

fn guard<'a, T>(gate: &'a Gate, held: LockResult<std::sync::MutexGuard<'a, T>>) -> LockResult<MutexGuard<'a, T>> {
    let guard = |held| MutexGuard { inside: gate.enter(), held };
    held.map(guard).map_err(|poisoned| PoisonError::new(guard(poisoned.into_inner())))
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.held
    }
}

/// Like [`std::sync::Condvar`].
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    pub fn wait<'a, T>(&self, guard_of: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard { inside, held } = guard_of;
        let gate = inside.0;
        drop(inside);
        guard(gate, self.0.wait(held))
    }

    // Some crates that include this file never wait with a time limit.
    #[allow(dead_code)]
    pub fn wait_timeout<'a, T>(
        &self,
        guard_of: MutexGuard<'a, T>,
        most: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let MutexGuard { inside, held } = guard_of;
        let gate = inside.0;
        drop(inside);
        let enter = |(held, result)| (MutexGuard { inside: gate.enter(), held }, result);
        let waited = self.0.wait_timeout(held, most);
        waited.map(enter).map_err(|poisoned| PoisonError::new(enter(poisoned.into_inner())))
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
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
