//! Std's locks, with a gate that a thread enters when it gets the lock and leaves just before it gives the lock back. They have only those
//! methods of std's that are used. The tests of the workspace include this file for their own use.
#![allow(missing_docs, unreachable_pub)]

use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult};
use std::time::Duration;

use super::Gate;

/// Leaves the gate when it is dropped.
#[derive(Debug)]
struct Inside<'a>(&'a Gate);

impl Inside<'_> {
    fn of(gate: &Gate) -> Inside<'_> {
        gate.enter();
        Inside(gate)
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
            Ok(held) => Ok(guard(&self.gate, Ok(held))?),
            Err(TryLockError::Poisoned(held)) => Ok(guard(&self.gate, Err(held))?),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
        }
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.lock.get_mut()
    }
}

/// Enters the gate of a lock that the thread has just got.
fn guard<'a, T>(gate: &'a Gate, held: LockResult<std::sync::MutexGuard<'a, T>>) -> LockResult<MutexGuard<'a, T>> {
    let guard = |held| MutexGuard { inside: Inside::of(gate), held };
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
        let enter = |(held, result)| (MutexGuard { inside: Inside::of(gate), held }, result);
        let waited = self.0.wait_timeout(held, most);
        waited.map(enter).map_err(|poisoned| PoisonError::new(enter(poisoned.into_inner())))
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
