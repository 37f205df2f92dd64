//! Which calls of the driver's allocator are this crate's own: those are the driver's to answer, even where the memory of other
//! crates comes from a scope.

use std::cell::Cell;

thread_local! {
    // Without a destructor, so that it can be asked at any time of a thread's end.
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Makes a call that allocates from the driver.
pub(crate) fn own_call<R>(call: impl FnOnce() -> R) -> R {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            IS_OWN.set(self.0);
        }
    }
    let _reset = Reset(IS_OWN.replace(true));
    call()
}

/// Whether the calling thread is in such a call.
#[cfg(feature = "foreign")]
#[inline]
pub(crate) fn is_own_call() -> bool {
    IS_OWN.get()
}
