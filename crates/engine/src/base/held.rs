//! Checks that the calling thread holds no lock of this crate, and no borrow of an owner's side, while code of the program runs.
//!
//! Code of the program is a pressure handler, a subscriber of `tracing`, work on a host's stream, or the destructor of a value that the
//! program made. This code may call the crate. It may also lock a mutex of its own which another thread holds while that thread calls the
//! crate. So the crate must hold none of its locks while code of the program runs. In builds with debug assertions, each lock increments a
//! counter of its thread. Each place where code of the program may run checks this counter, even if no such code runs this time. Other
//! builds do neither.

use super::per_thread::THREAD;

/// Counts as one held lock of the calling thread until it is dropped.
#[derive(Debug)]
pub struct Held(());

impl Held {
    #[inline(always)]
    pub fn begin() -> Held {
        #[cfg(debug_assertions)]
        THREAD.with(|thread| thread.held.set(thread.held.get() + 1));
        Held(())
    }
}

#[cfg(debug_assertions)]
impl Drop for Held {
    fn drop(&mut self) {
        THREAD.with(|thread| thread.held.set(thread.held.get() - 1));
    }
}

/// Shows that the calling thread holds a cache for a moment, until this value is dropped. It counts as a lock. A thread may hold several of them.
#[derive(Debug)]
pub(crate) struct Brief(Held);

impl Brief {
    pub(crate) fn begin() -> Brief {
        THREAD.with(|thread| thread.briefs.set(thread.briefs.get() + 1));
        Brief(Held::begin())
    }

    /// Whether the calling thread holds a cache for a moment.
    pub(crate) fn is_any() -> bool {
        THREAD.with(|thread| thread.briefs.get() > 0)
    }
}

impl Drop for Brief {
    fn drop(&mut self) {
        THREAD.with(|thread| thread.briefs.set(thread.briefs.get() - 1));
    }
}

/// Marks a place where code of the program may run. A build with debug assertions panics here if the thread holds a lock of this crate.
#[inline(always)]
#[track_caller]
pub fn assert_nothing_held() {
    #[cfg(debug_assertions)]
    {
        let held = THREAD.with(|thread| thread.held.get());
        // A second panic would abort the process and hide the first one.
        assert!(
            held == 0 || std::thread::panicking(),
            "code of the program may run here, under {held} locks of this crate"
        );
    }
}

#[cfg(all(test, debug_assertions, not(loom)))]
mod tests {
    use super::*;
    use crate::base::sync::{Condvar, Mutex};

    fn is_noticed() -> bool {
        std::panic::catch_unwind(assert_nothing_held).is_err()
    }

    #[test]
    fn code_of_the_program_under_a_lock_is_noticed() {
        assert!(!is_noticed());
        let (outer, inner) = (Mutex::new(1), Mutex::new(2));
        let held = outer.lock().unwrap();
        let also_held = inner.try_lock().unwrap();
        drop(held);
        assert!(is_noticed());
        assert!(inner.try_lock().is_err());
        drop(also_held);
        assert!(!is_noticed());
    }

    #[test]
    fn a_lock_is_held_again_after_a_wait() {
        let (mutex, condvar) = (Mutex::new(()), Condvar::default());
        let held = mutex.lock().unwrap();
        let (held, _) = condvar.wait_timeout(held, std::time::Duration::from_millis(1)).unwrap();
        assert!(is_noticed());
        drop(held);
        assert!(!is_noticed());
    }
}
