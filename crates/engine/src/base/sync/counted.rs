//! Std's mutex, which is counted by [`Held`] while it is locked. Builds with debug assertions use it. It has only those methods of std's
//! that this crate uses.

use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult};
use std::time::Duration;

use crate::base::held::Held;

/// Like [`std::sync::Mutex`].
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

/// Like [`std::sync::MutexGuard`].
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    guard: std::sync::MutexGuard<'a, T>,
    held: Held,
}

/// Like [`std::sync::Condvar`].
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

fn counted<'a, T>(locked: LockResult<std::sync::MutexGuard<'a, T>>) -> LockResult<MutexGuard<'a, T>> {
    let count = |guard| MutexGuard { guard, held: Held::begin() };
    locked.map(count).map_err(|poisoned| PoisonError::new(count(poisoned.into_inner())))
}

impl<T> Mutex<T> {
    pub const fn new(contents: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(contents))
    }

    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        counted(self.0.lock())
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Ok(counted(Ok(guard))?),
            Err(TryLockError::Poisoned(poisoned)) => Ok(counted(Err(poisoned))?),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
        }
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard { guard, held } = guard;
        drop(held);
        counted(self.0.wait(guard))
    }

    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        most: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let MutexGuard { guard, held } = guard;
        drop(held);
        let count = |(guard, result)| (MutexGuard { guard, held: Held::begin() }, result);
        let waited = self.0.wait_timeout(guard, most);
        waited.map(count).map_err(|poisoned| PoisonError::new(count(poisoned.into_inner())))
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
