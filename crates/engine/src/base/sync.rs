//! Atomics, cells and locks: those of std, or replacements that a checker needs.
//!
//! If the tests of this crate are built with `--cfg loom`, atomics and cells come from the model checker loom. Loom runs a test many times,
//! in each order in which its threads can meet. It lets each load return every value that the load's ordering allows. Programs that use the
//! crate never build with loom. Statistics are not part of the models, so they use std.
//!
//! With `--cfg gpucache_tsan`, locks tell ThreadSanitizer which accesses they order: see `instrumented`. Other builds with debug assertions
//! count the locks that a thread holds. Tests then notice code of the program that runs under a lock: see `counted`.

#[cfg(all(debug_assertions, not(gpucache_tsan)))]
mod counted;
#[cfg(any(debug_assertions, gpucache_tsan))]
mod gated;
#[cfg(gpucache_tsan)]
mod instrumented;

#[cfg(not(all(loom, test)))]
pub(crate) use self::plain::UnsafeCell;
#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, compiler_fence};
#[cfg(not(all(loom, test)))]
pub(crate) use std::thread::yield_now;

#[cfg(all(debug_assertions, not(gpucache_tsan)))]
use self::counted::Gate;
#[cfg(any(debug_assertions, gpucache_tsan))]
pub use self::gated::{Condvar, Mutex, MutexGuard};
#[cfg(gpucache_tsan)]
use self::instrumented::Gate;
#[cfg(gpucache_tsan)]
pub use self::instrumented::{LazyLock, OnceLock};
#[cfg(not(any(debug_assertions, gpucache_tsan)))]
pub use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(gpucache_tsan))]
pub use std::sync::{LazyLock, OnceLock};

/// Locks a mutex, also after a panic of a thread that had it locked: what it protects is whole even then.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The mutex of code that loom checks. A thread may not wait for a mutex of std while a model runs.
#[cfg(not(all(loom, test)))]
pub(crate) use self::{Mutex as Lock, MutexGuard as LockGuard};
#[cfg(all(loom, test))]
pub(crate) use loom::sync::{Mutex as Lock, MutexGuard as LockGuard};

#[cfg(all(loom, test))]
pub(crate) use self::checked::{AtomicBool, AtomicPtr, AtomicU64};
/// Outside of models, a barrier for all processors (`membarrier`) makes a compiler fence sufficient. A model has no such barrier, so it
/// uses a full fence.
#[cfg(all(loom, test))]
pub(crate) use loom::sync::atomic::fence as compiler_fence;
#[cfg(all(loom, test))]
pub(crate) use loom::{cell::UnsafeCell, thread::yield_now};

#[cfg(not(all(loom, test)))]
mod plain {
    /// Std's `UnsafeCell`, with the methods of loom's.
    #[derive(Default)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(contents: T) -> UnsafeCell<T> {
            UnsafeCell(std::cell::UnsafeCell::new(contents))
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, act: impl FnOnce(*mut T) -> R) -> R {
            act(self.0.get())
        }
    }
}

/// In loom, a sequentially consistent load does not return a store that is older than another sequentially consistent store, if loom knows
/// the order of the two. To let loom know the order of all of them, the initial value is stored sequentially consistently too, and each
/// such store is an exchange.
#[cfg(all(loom, test))]
mod checked {
    use std::ops::Deref;
    use std::sync::atomic::Ordering::{self, SeqCst};

    macro_rules! atomics {
        ($($name:ident $(<$of:ident>)?: $value:ty;)*) => {$(
            pub(crate) struct $name $(<$of>)? (loom::sync::atomic::$name $(<$of>)?);

            impl $(<$of>)? $name $(<$of>)? {
                pub(crate) fn new(value: $value) -> Self {
                    let atomic = loom::sync::atomic::$name::new(value);
                    atomic.store(value, SeqCst);
                    $name(atomic)
                }

                #[allow(dead_code)]
                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    match order {
                        SeqCst => _ = self.0.swap(value, SeqCst),
                        weaker => self.0.store(value, weaker),
                    }
                }
            }

            impl $(<$of>)? Deref for $name $(<$of>)? {
                type Target = loom::sync::atomic::$name $(<$of>)?;

                fn deref(&self) -> &Self::Target {
                    &self.0
                }
            }
        )*};
    }

    atomics! { AtomicBool: bool; AtomicU64: u64; AtomicPtr<T>: *mut T; }
}
