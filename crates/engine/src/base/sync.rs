//! Atomics, cells and locks: those of std, or what a checker needs instead.
//!
//! Where the tests of this crate are built with `--cfg loom`, atomics and cells are the model checker's. Loom runs a test
//! again and again, in each order in which its threads can meet, and lets each load return each value that its ordering
//! allows. Nobody who uses the crate builds it. Statistics are no part of the models and use std.
//!
//! With `--cfg gpucache_tsan` locks tell ThreadSanitizer what they order: see `instrumented`. In other builds with debug assertions
//! they are counted, so that tests notice where code of the program runs under one: see `counted`.

#[cfg(all(debug_assertions, not(gpucache_tsan)))]
mod counted;
#[cfg(gpucache_tsan)]
mod instrumented;

#[cfg(not(all(loom, test)))]
pub(crate) use self::plain::UnsafeCell;
#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, compiler_fence};
#[cfg(not(all(loom, test)))]
pub(crate) use std::thread::yield_now;

#[cfg(all(debug_assertions, not(gpucache_tsan)))]
pub use self::counted::{Condvar, Mutex, MutexGuard};
#[cfg(gpucache_tsan)]
pub use self::instrumented::{Condvar, LazyLock, Mutex, MutexGuard, OnceLock};
#[cfg(not(any(debug_assertions, gpucache_tsan)))]
pub use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(gpucache_tsan))]
pub use std::sync::{LazyLock, OnceLock};

/// The mutex of what is modelled: nobody may wait for one of std's while a model runs.
#[cfg(not(all(loom, test)))]
pub(crate) use self::{Mutex as Lock, MutexGuard as LockGuard};
#[cfg(all(loom, test))]
pub(crate) use loom::sync::{Mutex as Lock, MutexGuard as LockGuard};

#[cfg(all(loom, test))]
pub(crate) use self::checked::{AtomicBool, AtomicPtr, AtomicU64};
/// A model has no barrier from outside that would do for the processor what this leaves to it.
#[cfg(all(loom, test))]
pub(crate) use loom::sync::atomic::fence as compiler_fence;
#[cfg(all(loom, test))]
pub(crate) use loom::{cell::UnsafeCell, thread::yield_now};

#[cfg(not(all(loom, test)))]
mod plain {
    /// As std's, with loom's way to get at the contents.
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

/// Loom lets a sequentially consistent load return no store that it knows to be older than another sequentially consistent
/// one. So that it knows them all, the initial value is made such a store, and each of them an exchange.
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
